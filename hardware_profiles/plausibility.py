"""Plausibility checks of timings: positive, finite, not all equal, and dependent on the architecture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import pdist, squareform
from scipy.stats import rankdata

from search_spaces.errors import InputError

Floats = npt.NDArray[np.float64]

LEAST_ROWS = 8
"""With fewer measurements neither a fit nor its error is significant."""
CHANCE, CHANCE_OF_FEW, FEW = 0.02, 0.2, 20
"""Accepted false-positive rates of the dependence test; larger for few rows, which show less."""
_SHUFFLES = 999
_RIDGES = (0.3, 3.0, 30.0)


def check_latencies(where: str, ms: npt.ArrayLike, least: int = LEAST_ROWS) -> Floats:
    """The latencies as an array. Raises InputError if some are not positive numbers, all are equal, or too few."""
    values = numbers(where, "latencies", ms, 1)
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if bad.size:
        others = f" (and {bad.size - 1} more of {values.size} rows)" if bad.size > 1 else ""
        problem = f"the latency of row {bad[0] + 1} is {values[bad[0]]:g} ms{others}"
        raise InputError(where, f"{problem}; a latency is a finite number above 0")
    if values.size < least:
        raise InputError(where, f"{values.size} rows of measurements are too few; at least {least} are needed")
    if values.size > 1 and np.ptp(values) <= 1e-9 * values.max():
        raise InputError(where, f"all {values.size} latencies equal {values[0]:g} ms; the clock may be too coarse, or "
                                "the model was not run")
    return values


def check_features(where: str, names: Sequence[str], features: npt.ArrayLike) -> Floats:
    """The features as an array (n, p).

    Raises InputError if they do not match the names, or are negative or not finite.
    """
    table = numbers(where, "features", features, 2)
    if len(set(names)) != len(names):
        raise InputError(where, f"two of the {len(names)} features have the same name")
    if table.shape[1] != len(names):
        raise InputError(where, f"rows have {table.shape[1]} features, but {len(names)} are named")
    for row, column in np.argwhere(~(np.isfinite(table) & (table >= 0))):
        raise InputError(where, f"feature {names[column]} of row {row + 1} is {table[row, column]:g}; features are "
                                "finite and not negative")
    return table


def check_weights(where: str, weights: npt.ArrayLike | None, n_rows: int) -> Floats:
    """The weights of the rows with a mean of 1. Raises InputError if they are not positive, or not one for each row."""
    counts = np.ones(n_rows) if weights is None else numbers(where, "weights", weights, 1)
    if len(counts) != n_rows:
        raise InputError(where, f"{len(counts)} weights do not match {n_rows} latencies")
    for row in np.flatnonzero(~(np.isfinite(counts) & (counts > 0))):
        raise InputError(where, f"the weight of row {row + 1} is {counts[row]:g}; weights are finite and above 0")
    return counts / counts.mean()


def check_dependence(where: str, features: Floats, ms: Floats) -> None:
    """Raises InputError if the latencies fit the features no better than shuffled ones."""
    chance = chance_of_dependence(features, ms)
    few = len(ms) < FEW
    if chance > (CHANCE_OF_FEW if few else CHANCE):
        more = f", or {len(ms)} rows are too few to show it" if few else ""
        raise InputError(where, f"the latency does not depend on the architecture{more}: randomly shuffled "
                                f"latencies of the {len(ms)} rows fit the features as well in {100 * chance:.0f} % of "
                                "tries")


def chance_of_dependence(features: Floats, ms: Floats) -> float:
    """How often shuffled latencies fit the features as well: by a single feature, or by leave-one-out ridge regression
    on all.

    Ranks limit the influence of outliers. Predictions of a ridge regression are linear in its targets, so one matrix
    serves all shuffles. The better of the two tests counts, with a correction for two tests.
    """
    ranks = rankdata(features, axis=0)
    varies = np.ptp(ranks, axis=0) > 0
    if not varies.any():
        return 1.0
    inputs = ranks[:, varies] - ranks[:, varies].mean(0)
    inputs /= inputs.std(0)
    target = rankdata(ms) - (len(ms) + 1) / 2
    rng = np.random.default_rng(0)
    columns = np.stack([target, *(rng.permutation(target) for _ in range(_SHUFFLES))], 1)
    errors = np.min([_left_out_error(kernel, columns) for kernel in _kernels(inputs)], axis=0)
    unlike = -np.abs(inputs.T @ columns).max(0)
    return float(min(1.0, 2 * min(np.mean(test <= test[0] + 1e-12 * abs(test[0])) for test in (errors, unlike))))


def contradictions(features: Floats, ms: Floats, tolerance: float) -> list[tuple[int, int]]:
    """Pairs of rows with equal features whose latencies differ by more than this share; the worst of each."""
    _, group = np.unique(features, axis=0, return_inverse=True)
    faults = []
    for number in np.flatnonzero(np.bincount(group.ravel()) > 1):
        rows = np.flatnonzero(group.ravel() == number)
        low, high = rows[np.argmin(ms[rows])], rows[np.argmax(ms[rows])]
        if ms[high] > ms[low] * (1 + tolerance):
            faults.append((int(low), int(high)))
    return faults


def numbers(where: str, what: str, values: npt.ArrayLike | Sequence[object], n_axes: int) -> Floats:
    """The values as an array of floats with this many axes. Raises InputError if they are not."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(where, f"the {what} are not a table of numbers with rows of equal length") from None
    if array.ndim != n_axes:
        raise InputError(where, f"the {what} have {array.ndim} axes instead of {n_axes}")
    return array


def _kernels(inputs: Floats) -> list[Floats]:
    """Kernels of the rows: linear, and smooth."""
    distances = squareform(pdist(inputs, "sqeuclidean"))
    linear = inputs @ inputs.T / inputs.shape[1]
    return [kernel + ridge * np.eye(len(inputs)) for ridge in _RIDGES
            for kernel in (linear, np.exp(-distances / max(float(np.median(distances)), 1e-12)))]


def _left_out_error(regularised: Floats, columns: Floats) -> Floats:
    """Squared error per column when each row is predicted from the others."""
    inverse = np.linalg.inv(regularised + 1.0)
    return ((inverse @ columns / np.diag(inverse)[:, None]) ** 2).sum(0)
