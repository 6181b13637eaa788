"""How units add up to whole models: fitted on a few that were measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from hardware_profiles.latency import LatencyModel, uses
from hardware_profiles.stored import Calibration, group
from search_spaces.architecture import Architecture

Floats = NDArray[np.float64]
NOISE, TRUST = 0.02, 0.1
"""Relative noise of a measured model; how far a group's scale may lie from the common one (standard deviations)."""


def calibrate(model: LatencyModel, archs: Sequence[Architecture], ms: Floats, phase: str) -> Calibration:
    """How units add up to these measured models.

    A least-squares fit of relative errors, drawn towards scales of one common size, so that a group that hardly
    varies among the models is left alone; `error` is found by leaving models out one by one.
    """
    groups = sorted({group(step.unit, again) for arch in archs for step, again in uses(arch, phase)})
    sums = np.zeros((len(archs), len(groups) + 1))
    for i, arch in enumerate(archs):
        sums[i, 0] = 1.0
        for step, again in uses(arch, phase):
            sums[i, 1 + groups.index(group(step.unit, again))] += model.row(step.unit, phase).ms
    found = _fit(sums, ms)
    left_out = [_fit(np.delete(sums, i, axis=0), np.delete(ms, i)) @ sums[i] / ms[i] - 1 for i in range(len(archs))]
    error = float(np.sqrt(np.mean(np.square(left_out)))) if len(archs) > 1 else 0.0
    scales = {name: float(value) for name, value in zip(groups, found[1:])}
    return Calibration(overhead_ms=float(found[0]), scales=scales, error=error, n=len(archs))


def _fit(sums: Floats, ms: Floats) -> Floats:
    """(overhead, scales): non-negative, relative errors weighed against the distance from a common scale."""
    totals = sums[:, 1:].sum(axis=1)
    common = float(np.median(ms / totals))
    least = float(np.median(ms))
    rows = [sums / ms[:, None] / NOISE]
    goals = [np.full(len(ms), 1 / NOISE)]
    prior = np.diag([1 / (0.05 * least), *np.full(sums.shape[1] - 1, 1 / (TRUST * common))])
    rows.append(prior)
    goals.append(np.array([0.0, *np.full(sums.shape[1] - 1, 1 / TRUST)]))
    return np.asarray(lsq_linear(np.vstack(rows), np.concatenate(goals), bounds=(0, np.inf)).x)
