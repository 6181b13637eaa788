"""Distributes architectures to workers in portions, and reports each to the study exactly once."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence

from nas.core.stopping import Stop
from nas.stages.search.evaluator import Evaluation
from nas.stages.search.search import Proposal, Search

AIM_S = 5.0
"""Target seconds of a portion: handing one out takes a few tenths of a second."""
PER_WORKER_S = 0.2
"""Target seconds of a portion per worker, so that the dispatcher keeps up."""
MOST = 64
"""Maximum architectures of a portion, which are proposed without each other's results."""
TRIES = 3
"""Number of worker deaths after which an architecture counts as failed."""


class Handout:
    """The remaining trials of a search: to propose, in progress, and lost.

    Args:
        stop: ends a long series of proposals that need no evaluation.
    """

    def __init__(self, search: Search, stop: Stop = lambda: False) -> None:
        self._search, self._stop = search, stop
        self._left = search.n_trials - search.done
        self._out: dict[str, list[Proposal]] = {}
        self._again: deque[Proposal] = deque()
        self._deaths: Counter[int] = Counter()
        self._seconds: float | None = None
        self.came_back = 0
        """Portions that were evaluated."""
        self.lost_in_a_row = 0
        """Consecutive lost portions."""

    @property
    def n_out(self) -> int:
        """Number of portions in progress."""
        return len(self._out)

    @property
    def finished(self) -> bool:
        """Whether every trial is finished."""
        return self._left <= 0 and not self._out and not self._again

    def give(self, name: str, workers: int) -> list[Proposal]:
        """The next portion, identified by its name; empty if there is nothing to give now."""
        if self._again:
            portion = [self._again.popleft()]  # alone, because it may kill the worker
        else:
            portion = list(self._proposals(self.size(workers)))
        if portion:
            self._out[name] = portion
        return portion

    def size(self, workers: int) -> int:
        """Architectures of a portion: a few seconds of work, but not so much that other workers are idle."""
        if self._seconds is None:
            return 1
        aim = max(AIM_S, workers * PER_WORKER_S)
        return max(1, min(int(aim / max(self._seconds, 1e-6)), MOST, self._left // max(workers, 1)))

    def _proposals(self, size: int) -> Iterator[Proposal]:
        while size and self._left > 0 and not self._stop():
            proposal = self._search.propose()
            self._left -= 1
            if proposal is not None:
                size -= 1
                yield proposal

    def take(self, name: str, evaluations: Sequence[Evaluation], seconds: float) -> None:
        """Report the results of a portion to the study; finished or failed trials are ignored.

        Args:
            seconds: that all of it took.
        """
        portion = self._out.pop(name, None)
        if portion is None:
            return
        self.came_back += 1
        self.lost_in_a_row = 0
        per_trial = seconds / len(portion)
        self._seconds = per_trial if self._seconds is None else (self._seconds + per_trial) / 2
        for proposal, evaluation in zip(portion, evaluations, strict=True):
            self._search.accept(proposal, evaluation)

    def lose(self, name: str, why: str) -> None:
        """A worker died on a portion: hand it out again, or mark it as failed after too many deaths.

        Until a first portion succeeds, nothing is marked as failed, because all workers may be broken.
        """
        portion = self._out.pop(name, None)
        if portion is None:
            return
        self.lost_in_a_row += 1
        for proposal in portion:
            number = proposal.trial.number
            self._deaths[number] += 1
            if self._deaths[number] < TRIES or not self.came_back:
                self._again.append(proposal)
            else:
                message = f"its worker died {self._deaths[number]} times: {why}"
                self._search.accept(proposal, Evaluation({}, reason=message))

    def recall(self) -> None:
        """No worker is left: portions in progress must be handed out again."""
        for portion in self._out.values():
            self._again.extend(portion)
        self._out.clear()
