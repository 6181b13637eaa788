"""The progress of a search: trials done, the size of the front, and the volume it covers."""

from __future__ import annotations

import time

import numpy as np
from optuna.trial import FrozenTrial, TrialState

from nas.core.pareto import as_costs, hypervolume
from nas.core.progress import StageProgress
from nas.core.trials import is_feasible
from nas.stages.search.search import Search


class FrontProgress:
    """Advances a task with every trial, and shows the size and hypervolume of the front."""

    def __init__(self, search: Search, progress: StageProgress) -> None:
        self.maximise = [measure.maximise for measure in search.setup.objectives]
        self.front = self.box = np.zeros((0, len(self.maximise)))
        self.failed, self.volume, self.changed, self.next_volume = 0, "", False, 0.0
        self.task = progress.task("searching", search.n_trials, search.done)
        for trial in search.record.finished:
            self._note(trial)
        self._say()

    def __call__(self, trial: FrozenTrial) -> None:
        """Count a finished trial."""
        self._note(trial)
        if trial.state != TrialState.PRUNED:
            self.task.move()
        self._say()

    def _note(self, trial: FrozenTrial) -> None:
        self.failed += trial.state == TrialState.FAIL
        if trial.state != TrialState.COMPLETE:
            return
        point = as_costs([trial.values], self.maximise)
        self.box = np.vstack([self.box, point]) if len(self.box) < 2 else np.vstack([
            np.minimum(self.box, point).min(axis=0), np.maximum(self.box, point).max(axis=0)])
        if is_feasible(trial) and not trial.user_attrs.get("interval") and not (self.front <= point).all(axis=1).any():
            self.front = np.vstack([self.front[~(point <= self.front).all(axis=1)], point])
        self.changed = True

    def _say(self) -> None:
        """The hypervolume of a large front is expensive, so it is recomputed only after changes, at intervals."""
        if self.changed and len(self.box) > 1 and time.monotonic() > self.next_volume:
            start = time.monotonic()
            low, high = self.box.min(axis=0), self.box.max(axis=0)
            scaled = (self.front - low) / np.where(high > low, high - low, 1.0)
            self.volume = f", hypervolume {hypervolume(scaled, np.ones(len(self.maximise))):.3f}"
            self.changed, self.next_volume = False, time.monotonic() + 20 * (time.monotonic() - start)
        failed = f", failed {self.failed}" if self.failed else ""
        self.task.say(f"front {len(self.front)}{self.volume}{failed}")
