"""Gaussian process regression; the only such algebra in the repository.

Callers choose kernels and their parameters: `regression` (latency of whole models) and the sampler `predictor` of
`nas`. scikit-learn's regressor supports neither per-row noise proportional to a fitted one nor updates of variance
components, so it would replace a page of code with a dependency and two subclasses.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve

Floats = npt.NDArray[np.float64]
JITTERS = (0.0, 1e-8, 1e-6, 1e-4, 1e-2)
"""Values to add to the diagonal, relative to its mean (or to 1), until the factorisation succeeds despite rounding."""


class Posterior:
    """A Gaussian process of mean 0, given noisy values at n points.

    Args:
        covariance: (n, n), of the values without noise.
        noise: the variance of the noise, one number or (n,).
    """

    def __init__(self, covariance: Floats, noise: npt.ArrayLike) -> None:
        self._factor = _factor(covariance, np.broadcast_to(np.asarray(noise, dtype=np.float64), len(covariance)))

    def solve(self, values: Floats) -> Floats:
        """The inverse of the noisy covariance times values, (n,) or (n, k); `cross @ solve(y)` is a mean."""
        return np.asarray(cho_solve(self._factor, values))

    @cached_property
    def inverse(self) -> Floats:
        """The inverse of the noisy covariance."""
        return self.solve(np.eye(len(self._factor[0])))

    def variance(self, own: Floats, cross: Floats) -> Floats:
        """The variance at m points; rounding may leave it a little below 0.

        Args:
            own: (m,) their prior variances.
            cross: (m, n) their covariances with the values.
        """
        return np.asarray(own - (cross * self.solve(cross.T).T).sum(axis=1))

    def negative_log_likelihood(self, values: Floats) -> float:
        """Of the values, up to a constant."""
        return float(0.5 * values @ self.solve(values) + np.log(np.diag(self._factor[0])).sum())

    def left_out(self, values: Floats) -> tuple[Floats, Floats]:
        """Leave-one-out mean and variance of each value, noise included."""
        precision = np.diag(self.inverse)
        return values - self.solve(values) / precision, 1 / precision


def _factor(covariance: Floats, noise: Floats) -> tuple[Floats, bool]:
    level = max(float(np.diag(covariance).mean()), 1.0)
    for jitter in JITTERS:
        try:
            return cho_factor(covariance + np.diag(noise + jitter * level), lower=True)
        except LinAlgError:
            continue
    return cho_factor(np.diag(np.diag(covariance) + level), lower=True)
