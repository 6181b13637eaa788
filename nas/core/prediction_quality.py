"""Quality of latency predictions, and the thresholds of a good profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import kendalltau

from nas.core.pareto import Floats
from search_spaces import Architecture

BAND, DECODE_ERROR = 0.10, 0.10
MOST_ERROR, LEAST_WITHIN, LEAST_TAU = 0.03, 0.98, 0.95
FEWEST, ENOUGH = 12, 50
"""Number of models needed for a verdict: good, and off.

A predictor with an error of 2 %, on models whose latencies differ by up to a factor of 4, has a tau below 0.95 by
chance in 22 % of 1,000 simulations with 6 models, 28 % with 12, 21 % with 20, 12 % with 30 and 2 % with 50.
"""
GOOD, OFF, TOO_FEW = "good", "off", "too few models"


@dataclass(frozen=True)
class Quality:
    """How predictions compare with measurements.

    Args:
        mape: mean relative error.
        within: share that misses by at most 10 %.
        tau: Kendall's, over all models; `tau_within_depth` is the mean of those among models of one depth.
    """

    mape: float
    within: float
    tau: float | None = None
    tau_within_depth: float | None = None


def quality(predicted: Floats, measured: Floats, archs: Sequence[Architecture]) -> Quality:
    """Errors and ranks of predictions."""
    errors = np.abs(predicted / measured - 1)
    depths = np.array([arch.depth for arch in archs])
    taus = [(tau(predicted[depths == depth], measured[depths == depth]), int(np.sum(depths == depth)))
            for depth in np.unique(depths) if np.sum(depths == depth) > 2]
    known = [(value, count) for value, count in taus if value is not None]
    within = sum(value * count for value, count in known) / sum(count for _, count in known) if known else None
    return Quality(float(errors.mean()), float(np.mean(errors <= BAND)), tau(predicted, measured), within)


def tau(x: Floats, y: Floats) -> float | None:
    """Kendall's tau-b; None if one side is all ties, or shorter than two."""
    value = float(kendalltau(x, y).statistic) if len(x) > 1 else np.nan
    return None if np.isnan(value) else value


def most_error(phase: str, noise_floor: float) -> float:
    """The largest acceptable mean error, near the measurement noise.

    One token takes so little time that runtime overhead is visible, so the threshold for decoding is larger.
    """
    return DECODE_ERROR if phase == "decode" else max(MOST_ERROR, 1.5 * noise_floor)


def verdict(phase: str, n: int, predicted: Quality, noise_floor: float) -> str:
    """`GOOD`, `OFF`, or `TOO_FEW` if n models are not enough. For decoding only the error counts."""
    limit = most_error(phase, noise_floor)
    ranked = phase == "decode" or (predicted.within >= LEAST_WITHIN and (predicted.tau or 0.0) >= LEAST_TAU)
    if predicted.mape <= limit and ranked and n >= FEWEST:
        return GOOD
    return OFF if n >= ENOUGH or predicted.mape > 2 * limit else TOO_FEW
