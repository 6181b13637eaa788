"""Kendall's tau-b of thousands of resamples or simulations of two columns at once.

scipy takes two columns a call, and 0.4 ms for 24 values: 100,000 resamples of five predictors would take 190 s there,
and take 0.2 s here.

A resample is a row of weights: how often each architecture was drawn. The pair of a value with a copy of itself is
tied in both columns, and tau-b counts such pairs nowhere, so drawing an architecture twice adds no false ties.
"""

from __future__ import annotations

import numpy as np

from nas.core.pareto import Floats

LEVEL = 0.95


def taus(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Tau-b of two columns under each row of weights; NaN where a column is constant.

    Args:
        weights: resamples by values; a value of weight 2 was drawn twice.
    """
    x_signs, y_signs = _signs(x), _signs(y)
    agreement, x_untied, y_untied = (((weights @ pairs) * weights).sum(axis=1)
                                     for pairs in (x_signs * y_signs, np.abs(x_signs), np.abs(y_signs)))
    with np.errstate(invalid="ignore"):
        return agreement / np.sqrt(x_untied * y_untied)


def bootstrap(n: int, count: int, seed: int) -> Floats:
    """The weights of `count` bootstrap resamples of n values."""
    if not n:
        return np.zeros((count, 0))
    return np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=count).astype(np.float64)


def interval(draws: Floats) -> tuple[float | None, float | None]:
    """The percentile interval of bootstrap draws, leaving out those where tau is undefined."""
    defined = draws[~np.isnan(draws)]
    if not len(defined):
        return None, None
    low, high = np.quantile(defined, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _signs(values: Floats) -> Floats:
    """For every two values, which is greater."""
    return np.sign(values[:, None] - values[None, :])
