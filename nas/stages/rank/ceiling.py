"""The upper bound of ranking quality, given the noise between seeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from nas.core.pareto import Floats
from nas.stages.rank.kendall import LEVEL, taus

SIMULATIONS = 1000


@dataclass(frozen=True)
class Noise:
    """The spread of the trained loss from seed to seed.

    Args:
        sigma: the standard deviation, pooled over the architectures that were trained twice.
        low: lower end of its interval; few repeats leave it wide.
        high: upper end.
        repeats: architectures that were trained twice.
    """

    sigma: float
    low: float
    high: float
    repeats: int


@dataclass(frozen=True)
class Ceiling:
    """The maximum tau under noise.

    Args:
        perfect: expected tau of a predictor that knows every true loss, against one training.
        low: the same if the noise is at the upper end of its interval.
        high: the same if it is at the lower end.
    """

    perfect: float
    low: float
    high: float


def seed_noise(first: Floats, second: Floats) -> Noise | None:
    """The noise between two training runs of the same architectures, NaN where one is missing; None without repeats.

    A shift common to all second training runs would count as noise, although it changes no ranking.
    """
    differences = first - second
    differences = differences[np.isfinite(differences)]
    k = len(differences)
    if not k:
        return None
    sigma = float(np.sqrt(np.mean(differences**2) / 2))
    low, high = (sigma * float(np.sqrt(k / chi2.ppf(q, k))) for q in ((1 + LEVEL) / 2, (1 - LEVEL) / 2))
    return Noise(sigma, low, high, k)


def ceiling(losses: Floats, noise: Noise, seed: int) -> Ceiling | None:
    """The maximum tau for these trained losses under noise; None for fewer than two."""
    if len(losses) < 2:
        return None
    return Ceiling(*(_expected(losses, sigma, seed) for sigma in (noise.sigma, noise.high, noise.low)))


def _expected(losses: Floats, sigma: float, seed: int) -> float:
    """Mean tau of the true losses with those of one training, simulated."""
    true = _true_losses(losses, sigma)
    noise = np.random.default_rng(seed).normal(0, sigma, (SIMULATIONS, len(losses)))
    once = np.ones((1, len(losses)))
    return float(np.nan_to_num([taus(true, true + one, once)[0] for one in noise]).mean())


def _true_losses(losses: Floats, sigma: float) -> Floats:
    """Losses shrunk so that their variance is the observed one minus the noise; all equal if noise explains
    everything."""
    mean, variance = losses.mean(), losses.var(ddof=1)
    kept = max(0.0, 1 - sigma**2 / variance) if variance > 0 else 0.0
    return np.asarray(mean + (losses - mean) * np.sqrt(kept))
