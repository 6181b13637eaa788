"""A Gaussian process: every parameter's own effect, the effects of pairs of parameters, and smooth effects of all.

The kernel is A + c (A / a)**2 + sum of d[j] R[j], with A = sum of w[g] * (features of group g), so that strong
parameters are also the ones expected to interact, and with squared exponentials R of several length scales. The
weights, c, d and the noise climb the likelihood by the multiplicative steps for variance components of Zhou et al.
(2019); few steps from equal weights keep the weights of indistinguishable parameters equal. Whole functions are
drawn by Matheron's rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from hardware_profiles.gaussian_process import Posterior
from nas.core.pareto import Floats

STEPS = 5
LEARNT_ON = 320
JITTER = 1e-6
BOLDNESS = 0.5
"""Scale of draws around the mean: with many parameters, full draws mostly show uncertainty."""
LENGTHS = (0.1, 0.2, 0.4, 0.8)
"""Length scales of the smooth effects, in units of the diagonal of the space."""
WAVES = 192
"""Random Fourier features of a draw, for each length scale."""
EXACT_PAIRS = 128
"""With more columns, the effects of pairs in a draw are of random projections, not of all pairs."""
PROJECTIONS = 48


@dataclass(frozen=True)
class Inputs:
    """Points as a model sees them.

    Args:
        columns: features whose effects add up, and interact.
        coordinates: where points are, for distances; no columns where there are no smooth effects.
    """

    columns: Floats
    coordinates: Floats


class Process:
    """The posterior of a function, and draws from it.

    Args:
        inputs: what was evaluated.
        groups: the group of each column.
        values: what was measured.
        draws: how many functions to draw.
    """

    def __init__(self, inputs: Inputs, groups: NDArray[np.int64], values: Floats, draws: int,
                 rng: np.random.Generator) -> None:
        y, self._middle, self._scale = _standardised(_without_outliers(values))
        chosen = np.linspace(0, len(y) - 1, min(LEARNT_ON, len(y))).astype(int)
        lengths = np.array(LENGTHS if inputs.coordinates.shape[1] else ())
        self._lengths = lengths * np.sqrt(max(inputs.coordinates.shape[1], 1))
        places = inputs.coordinates[chosen]
        weights, self._pairs, self._smooth_weights, self._noise = _components(
            inputs.columns[chosen], groups, _smooth(places, places, self._lengths), y[chosen])
        self._roots = np.sqrt(weights)[groups]
        self._known, self._places = inputs.columns * self._roots, inputs.coordinates
        self._level = float((self._known**2).sum(axis=1).mean()) or 1.0
        self._prior = Draw(self._known.shape[1], inputs.coordinates.shape[1], self._lengths, draws, rng)
        noise = np.sqrt(self._noise) * rng.standard_normal((len(y), draws))
        targets = np.column_stack([y, y[:, None] - self._drawn(self._known, self._places) - noise])
        cover = self._kernel(self._known, self._places)
        self._posterior = Posterior(cover, self._noise + JITTER)
        self._solved = self._posterior.solve(targets)

    def __call__(self, inputs: Inputs) -> Floats:
        """The expected values at new points, and those of every draw, with halved deviations: points by 1 + draws."""
        phi = inputs.columns * self._roots
        values = self._kernel(phi, inputs.coordinates) @ self._solved
        values[:, 1:] += self._drawn(phi, inputs.coordinates)
        values[:, 1:] += (1 - BOLDNESS) * (values[:, :1] - values[:, 1:])
        return self._middle + self._scale * values

    def improvement(self, inputs: Inputs) -> Floats:
        """The logarithm of the expected improvement at new points over the lowest expected value of known points."""
        phi = inputs.columns * self._roots
        cover = self._kernel(phi, inputs.coordinates)
        own = (phi**2).sum(axis=1)
        own = own + self._pairs * (own / self._level) ** 2 + self._smooth_weights.sum()
        spread = np.sqrt(np.maximum(self._posterior.variance(own, cover), 1e-12))
        least = float((self._kernel(self._known, self._places) @ self._solved[:, 0]).min())
        return _log_improvement((least - cover @ self._solved[:, 0]) / spread) + np.log(spread)

    def _kernel(self, phi: Floats, places: Floats) -> Floats:
        linear = phi @ self._known.T
        kernel = linear + self._pairs * (linear / self._level) ** 2
        if len(self._lengths):
            kernel += np.tensordot(self._smooth_weights, _smooth(places, self._places, self._lengths), 1)
        return np.asarray(kernel)

    def _drawn(self, phi: Floats, places: Floats) -> Floats:
        """The values of the prior's draws at points."""
        return self._prior(phi, places, np.sqrt(self._pairs) / self._level, np.sqrt(self._smooth_weights))


class Draw:
    """Functions drawn from the prior: linear, of pairs, and smooth."""

    def __init__(self, n_columns: int, n_places: int, lengths: Floats, draws: int, rng: np.random.Generator) -> None:
        self._linear = rng.standard_normal((n_columns, draws))
        self._exact = n_columns <= EXACT_PAIRS
        self._products = rng.standard_normal((draws, n_columns, n_columns if self._exact else PROJECTIONS))
        if not self._exact:  # both factors of all draws side by side, for one multiplication
            right = rng.standard_normal(self._products.shape)
            self._signs = rng.standard_normal((draws, PROJECTIONS)) / np.sqrt(PROJECTIONS)
            self._products = np.concatenate([self._products, right]).transpose(1, 0, 2).reshape(n_columns, -1)
        self._waves = rng.standard_normal((n_places, WAVES)) if len(lengths) else np.empty((n_places, 0))
        self._phases = rng.uniform(0, 2 * np.pi, self._waves.shape[1])
        self._heights = rng.standard_normal((len(lengths), self._waves.shape[1], draws)) * np.sqrt(2 / WAVES)
        self._lengths = lengths

    def __call__(self, phi: Floats, places: Floats, pairs: float, smooth: Floats) -> Floats:
        """Points by draws.

        Args:
            pairs: the size of the effects of pairs.
            smooth: the size of the smooth effects, for each length scale.
        """
        values = phi @ self._linear
        values += pairs * (self._of_all_pairs(phi) if self._exact else self._of_projections(phi))
        turns = places @ self._waves
        for length, size, heights in zip(self._lengths, smooth, self._heights):
            values += size * (np.cos(turns / length + self._phases) @ heights)
        return np.asarray(values)

    def _of_all_pairs(self, phi: Floats) -> Floats:
        return np.stack([((phi @ product) * phi).sum(axis=1) for product in self._products], axis=1)

    def _of_projections(self, phi: Floats) -> Floats:
        left, right = (phi @ self._products).reshape(len(phi), 2, *self._signs.shape).transpose(1, 0, 2, 3)
        return np.asarray(np.einsum("ndr,ndr,dr->nd", left, right, self._signs))


def _log_improvement(gain: Floats) -> Floats:
    """The logarithm of the expected improvement of a normal variable, in standard deviations."""
    usual = np.maximum(gain, -30.0)
    value = np.log(np.maximum(usual * ndtr(usual) + np.exp(-0.5 * usual**2) / np.sqrt(2 * np.pi), 1e-300))
    tail = -0.5 * gain**2 - 2 * np.log(np.maximum(-gain, 1.0)) - 0.5 * np.log(2 * np.pi)
    return np.where(gain > -5, value, tail)


def _smooth(places: Floats, others: Floats, lengths: Floats) -> Floats:
    """The squared exponential of every length scale: lengths by points by others."""
    if not len(lengths):
        return np.empty((0, len(places), len(others)))
    squares = (places**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2 * places @ others.T
    return np.asarray(np.exp(-0.5 * np.maximum(squares, 0) / lengths[:, None, None] ** 2))


def _components(phi: Floats, groups: NDArray[np.int64], smooth: Floats, y: Floats
                ) -> tuple[Floats, float, Floats, float]:
    """The weight of each group, of pairs, of each length scale, and of the noise."""
    n_groups = int(groups.max(initial=-1)) + 1
    first = np.zeros((n_groups, phi.shape[1]))
    first[groups, np.arange(phi.shape[1])] = 1
    weights, scales = np.full(n_groups, 0.5 / max(n_groups, 1)), np.full(len(smooth), 0.3 / max(len(smooth), 1))
    pairs, noise = 0.2, 0.3
    for _ in range(STEPS):
        linear = (phi * (weights @ first)) @ phi.T
        square = (linear / max(float(np.diag(linear).mean()), JITTER)) ** 2
        cover = linear + pairs * square + np.tensordot(scales, smooth, 1)
        inverse = Posterior(cover, noise + JITTER).inverse
        solved = inverse @ y
        seen = first @ (phi.T @ solved) ** 2
        expected = first @ (phi * (inverse @ phi)).sum(axis=0)
        weights = weights * _step(seen, expected)
        pairs *= float(_step(solved @ square @ solved, (inverse * square).sum()))
        scales = scales * _step(np.einsum("i,kij,j->k", solved, smooth, solved), (smooth * inverse).sum(axis=(1, 2)))
        noise *= float(_step(solved @ solved, np.trace(inverse)))
    return weights, pairs, scales, noise


def _step(seen: Floats, expected: Floats) -> Floats:
    """The factor of a weight; both arguments are sums of squares, up to rounding."""
    return np.sqrt(np.maximum(seen, 0) / np.maximum(expected, JITTER))


def _standardised(values: Floats) -> tuple[Floats, float, float]:
    """Values with mean 0 and spread 1, and the original mean and spread; constant values stay constant."""
    size = float(np.abs(values).max(initial=0.0)) or 1.0
    shares = values / size
    middle, spread = float(shares.mean()), float(shares.std())
    spread = spread if spread > 1e-14 else 1.0
    return (shares - middle) / spread, middle * size, spread * size


def _without_outliers(values: Floats) -> Floats:
    """Values with outliers clipped, such as those of diverged training runs."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return np.minimum(values, max(high, middle) + 3 * (high - low)) if high > low else values
