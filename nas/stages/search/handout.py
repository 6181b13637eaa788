"""Which architectures are out with workers: given out in portions, and each told to the study exactly once."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence

from nas.core.stopping import Stop
from nas.stages.search.evaluator import Evaluation
from nas.stages.search.search import Proposal, Search

AIM_S = 5.0
"""Work of a portion: handing one out costs some tenths of a second, however much is in it."""
PER_WORKER_S = 0.2
"""Work of a portion for each worker, so that the one who hands out keeps up with all of them."""
MOST = 64
"""Architectures in a portion: what is in it was proposed without knowing the results of the others."""
TRIES = 3
"""Workers that may die over an architecture before it counts as failed."""


class Handout:
    """The trials of a search that are still to do: those to propose, those that are out, those that came to nothing.

    Args:
        stop: ends a long row of proposals that need no evaluation.
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
        """Portions that were not, since one was."""

    @property
    def n_out(self) -> int:
        """Portions that are out."""
        return len(self._out)

    @property
    def finished(self) -> bool:
        """Whether every trial is told."""
        return self._left <= 0 and not self._out and not self._again

    def give(self, name: str, workers: int) -> list[Proposal]:
        """The next portion, known by its name from now on; empty if there is nothing to give at the moment."""
        if self._again:
            portion = [self._again.popleft()]  # alone: if it is what kills workers, it takes no other with it
        else:
            portion = list(self._proposals(self.size(workers)))
        if portion:
            self._out[name] = portion
        return portion

    def size(self, workers: int) -> int:
        """Architectures of a portion: some seconds of work, and not so many that other workers go without."""
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
        """Tell the study what came of a portion; what was told or given up before is left alone.

        Args:
            seconds: that all of it took.
        """
        portion = self._out.pop(name, None)
        if portion is None:
            return
        self.came_back += 1
        self.lost_in_a_row = 0
        each = seconds / len(portion)
        self._seconds = each if self._seconds is None else (self._seconds + each) / 2
        for proposal, evaluation in zip(portion, evaluations, strict=True):
            self._search.accept(proposal, evaluation)

    def lose(self, name: str, why: str) -> None:
        """A worker died over a portion: give it out again, or give it up after too many times.

        As long as nobody came back, nothing is given up: it may be all workers that are broken.
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
                says = f"the worker died on it {self._deaths[number]} times: {why}"
                self._search.accept(proposal, Evaluation({}, reason=says))

    def recall(self) -> None:
        """Nobody works any more: what is out has to be given out again."""
        for portion in self._out.values():
            self._again.extend(portion)
        self._out.clear()
