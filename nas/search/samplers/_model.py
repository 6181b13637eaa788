"""A Gaussian process over architectures: every parameter's own effect, and the effects of pairs of parameters.

The kernel is A + c (A / a)**2 with A = sum of w[g] * (features of group g), so that strong parameters are also the ones
expected to interact. The weights, c and the noise climb the likelihood by the multiplicative steps for variance
components of Zhou et al. (2019); few steps from an even start keep the weights of parameters that are not told apart
alike. Whole functions are drawn by Matheron's rule.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

Floats = NDArray[np.float64]
STEPS = 5
LEARNT_ON = 320
JITTER = 1e-6
BOLDNESS = 0.5
"""How far a draw may be from the mean: with many parameters, whole draws mostly show what is not known."""


class Process:
    """The function behind some values, and draws of what it may be.

    Args:
        columns: features of what was evaluated.
        groups: the group of each column.
        values: what was measured.
        draws: how many functions to draw.
    """

    def __init__(self, columns: Floats, groups: NDArray[np.int64], values: Floats, draws: int,
                 rng: np.random.Generator) -> None:
        values = _without_outliers(values)
        self._middle, self._scale = float(values.mean()), float(values.std()) or 1.0
        y = (values - self._middle) / self._scale
        chosen = np.linspace(0, len(y) - 1, min(LEARNT_ON, len(y))).astype(int)
        weights, self._pairs, self._noise = _components(columns[chosen], groups, y[chosen])
        self._roots = np.sqrt(weights)[groups]
        self._known = columns * self._roots
        self._level = float((self._known**2).sum(axis=1).mean()) or 1.0
        self._linear = rng.standard_normal((columns.shape[1], draws))
        self._quadratic = rng.standard_normal((draws, columns.shape[1], columns.shape[1]))
        cover = self._kernel(self._known) + (self._noise + JITTER) * np.eye(len(y))
        noise = np.sqrt(self._noise) * rng.standard_normal((len(y), draws))
        targets = np.column_stack([y, y[:, None] - self._prior(self._known) - noise])
        self._solved = cho_solve(cho_factor(cover, lower=True), targets)

    def __call__(self, columns: Floats) -> Floats:
        """The values expected at new points, and those of every draw, half as far from them: points by 1 + draws."""
        phi = columns * self._roots
        found = self._kernel(phi) @ self._solved
        found[:, 1:] += self._prior(phi)
        found[:, 1:] += (1 - BOLDNESS) * (found[:, :1] - found[:, 1:])
        return self._middle + self._scale * found

    def _kernel(self, phi: Floats) -> Floats:
        linear = phi @ self._known.T
        return linear + self._pairs * (linear / self._level) ** 2

    def _prior(self, phi: Floats) -> Floats:
        found = phi @ self._linear
        for draw, one in enumerate(self._quadratic):
            found[:, draw] += np.sqrt(self._pairs) / self._level * ((phi @ one) * phi).sum(axis=1)
        return found


def _components(phi: Floats, groups: NDArray[np.int64], y: Floats) -> tuple[Floats, float, float]:
    """The weight of each group, of pairs, and of the noise."""
    n_groups = int(groups.max(initial=-1)) + 1
    first = np.zeros((n_groups, phi.shape[1]))
    first[groups, np.arange(phi.shape[1])] = 1
    weights = np.full(n_groups, 0.5 / max(n_groups, 1))
    pairs, noise = 0.2, 0.3
    for _ in range(STEPS):
        linear = (phi * (weights @ first)) @ phi.T
        square = (linear / max(float(np.diag(linear).mean()), JITTER)) ** 2
        cover = linear + pairs * square + (noise + JITTER) * np.eye(len(y))
        inverse = cho_solve(cho_factor(cover, lower=True), np.eye(len(y)))
        solved = inverse @ y
        seen = first @ (phi.T @ solved) ** 2
        expected = first @ (phi * (inverse @ phi)).sum(axis=0)
        weights = weights * np.sqrt(seen / np.maximum(expected, JITTER))
        pairs *= float(np.sqrt((solved @ square @ solved) / max(float((inverse * square).sum()), JITTER)))
        noise *= float(np.sqrt((solved @ solved) / np.trace(inverse)))
    return weights, pairs, noise


def _without_outliers(values: Floats) -> Floats:
    """Values far above the others, as of trainings that diverged, brought near them."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return np.minimum(values, max(high, middle) + 3 * (high - low)) if high > low else values
