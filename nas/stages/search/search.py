"""The interface of a search to its backends: proposals and evaluations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from optuna.trial import FrozenTrial, Trial, TrialState

from nas.core.search_config import CALIBRATED
from nas.core.stopping import Stop, Stopped
from nas.core.trials import is_feasible
from nas.stages.search.calibration import LossCorrection
from nas.stages.search.evaluations import Evaluations
from nas.stages.search.evaluator import Evaluate, Evaluation, replayed
from nas.stages.search.racing import Rival, Rivals
from nas.stages.search.record import SearchRecord
from nas.stages.search.setup import SearchSetup
from nas.stages.search.suggestions import Suggestions
from search_spaces import Architecture, InputError
from search_spaces.errors import Option

MOST_MISSES = 200
"""Maximum consecutive proposals that violate a limit."""


@dataclass(frozen=True)
class Proposal:
    """An architecture that has to be evaluated."""

    trial: Trial
    arch: Architecture
    rival: Rival | None = None


class Search:
    """Proposes architectures and records their evaluations.

    Args:
        suggestions: of the same setup.
        evaluations: what was evaluated before under the same conditions.
        calibration: corrects inherited losses, if the search asks for it.

    Raises:
        InputError: a file of the search is damaged.
    """

    def __init__(self, setup: SearchSetup, suggestions: Suggestions, evaluations: Evaluations,
                 calibration: LossCorrection | None = None) -> None:
        self.setup, self.suggestions, self.calibration = setup, suggestions, calibration
        self.record = SearchRecord(setup, evaluations)
        self.suggestions.resume(self.record.study)
        self.n_trials = setup.config.trials
        """Target number of trials."""
        self.on_trial: Callable[[FrozenTrial], None] = lambda trial: None
        """Called with every finished trial."""
        self._rivals = Rivals([measure.maximise for measure in setup.cost_objectives])
        for trial in self.record.finished:
            self._add_rival(trial)

    @property
    def done(self) -> int:
        """Number of evaluated or failed trials."""
        return self.record.done

    def run(self, stop: Stop = lambda: False, evaluate: Evaluate | None = None) -> None:
        """Evaluate in this process, one architecture after the other, until all trials are done.

        Args:
            evaluate: by default on the run's supernet.

        Raises:
            Stopped: `stop` ended it before.
        """
        evaluate = evaluate or self.setup.evaluator()
        while self.done < self.n_trials:
            if stop():
                raise Stopped
            proposal = self.propose()
            if proposal is not None:
                self.accept(proposal, evaluate(proposal.arch, proposal.rival))

    def propose(self) -> Proposal | None:
        """The next architecture to evaluate; None if a proposal needed no evaluation.

        Raises:
            InputError: too many proposals in a row violate a limit.
        """
        trial, arch = self._within_limits()
        rival = self._rival(arch)
        known = self.record.evaluations.get(arch.key)
        evaluation = replayed(known, rival, self.setup.label_counts, self.setup.task.from_loss) if known else None
        if evaluation is None:
            return Proposal(trial, arch, rival)
        self.accept(Proposal(trial, arch), evaluation)
        return None

    def _within_limits(self) -> tuple[Trial, Architecture]:
        for _ in range(MOST_MISSES):
            trial, arch = self.suggestions.next(self.record.study)
            if self.setup.within_limits(arch):
                return trial, arch
            self._announce(self.record.add(trial, arch, TrialState.PRUNED, reason="violates a limit"))
        raise InputError("limits", f"{MOST_MISSES} consecutive proposals of the sampler {self.setup.config.sampler} "
                                   f"violate a limit; restart with {Option('fresh')} {Option('sampler')} predictor, "
                                   "which respects them, or with wider limits")

    def accept(self, proposal: Proposal, evaluation: Evaluation) -> FrozenTrial:
        """Record an evaluation."""
        arch, metrics = proposal.arch, self._metrics(proposal.arch, evaluation)
        values = [metrics.get(measure.name, math.nan) if measure.is_quality
                  else self.setup.costs(arch)[measure.name] for measure in self.setup.objectives]
        reason = evaluation.reason or ("" if np.isfinite(values).all() else "a value is not finite")
        if reason:
            return self._announce(self.record.add(proposal.trial, arch, TrialState.FAIL, reason=reason))
        self.record.keep(arch, evaluation)
        finished = self.record.add(proposal.trial, arch, TrialState.COMPLETE, values, metrics=metrics,
                                   interval=evaluation.interval, seen=len(evaluation.losses))
        self._add_rival(finished)
        return self._announce(finished)

    def _metrics(self, arch: Architecture, evaluation: Evaluation) -> dict[str, float]:
        """The metrics of an evaluation, and its calibrated loss."""
        if self.calibration is None or "loss" not in evaluation.metrics:
            return evaluation.metrics
        return {**evaluation.metrics, CALIBRATED: self.calibration(arch, evaluation.metrics["loss"])}

    def _announce(self, trial: FrozenTrial) -> FrozenTrial:
        self.on_trial(trial)
        return trial

    def _rival(self, arch: Architecture) -> Rival | None:
        """The architecture that it races against."""
        qualities = [measure.name for measure in self.setup.objectives if measure.is_quality]
        if not self.setup.config.race or len(qualities) != 1 or qualities[0] not in self.setup.task.from_loss:
            return None
        costs = self.setup.costs(arch)
        return self._rivals.best([costs[measure.name] for measure in self.setup.cost_objectives])

    def _add_rival(self, trial: FrozenTrial) -> None:
        """Record a finished trial as a rival of later ones."""
        known = self.record.evaluations.get(trial.user_attrs.get("key", ""))
        if is_feasible(trial) and not trial.user_attrs["interval"] and known and "loss" in known.metrics:
            costs = [trial.user_attrs["costs"][measure.name] for measure in self.setup.cost_objectives]
            self._rivals.add(costs, Rival(known.metrics["loss"], known.losses))
