"""The finished trials of a search: feasibility, hypervolume, and the work saved by early stopping."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from optuna.trial import FrozenTrial, TrialState

from nas.core.measures import Measure
from nas.core.pareto import Hypervolume, as_costs

UNMEASURED = "unmeasured_share"
"""Column of the share of a cost that is based on interpolated or estimated unit latencies; older files lack it."""


def is_feasible(trial: FrozenTrial) -> bool:
    """Whether a trial was evaluated and is within all limits, also those on quality."""
    return trial.state == TrialState.COMPLETE and all(value <= 0 for value in trial.constraints.values())


def hypervolumes(trials: Sequence[FrozenTrial], objectives: Sequence[Measure]) -> list[float]:
    """The share of the box between the best and the worst of all trials that the front covers, after each trial."""
    done = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    if not done:
        return []
    costs = as_costs([trial.values for trial in done], [measure.maximise for measure in objectives])
    low, high = costs.min(axis=0), costs.max(axis=0)
    scaled = (costs - low) / np.where(high > low, high - low, 1.0)
    volume = Hypervolume(np.ones(len(objectives)))
    return [volume.add(row) if is_feasible(trial) and not trial.user_attrs.get("interval") else volume.value
            for trial, row in zip(done, scaled)]


def saved_by_races(trials: Sequence[FrozenTrial]) -> float:
    """The share of all batches saved by early stopping."""
    seen = [(trial.user_attrs["key"], trial.user_attrs["seen"]) for trial in trials
            if trial.state == TrialState.COMPLETE]
    batches = dict(seen).values()
    return 1 - sum(batches) / (max(batches) * len(batches)) if seen else 0.0
