"""The algebra of Gaussian processes against textbook formulas."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from hardware_profiles.gaussian_process import Posterior

RNG = np.random.default_rng(0)
X, NEW = RNG.random((12, 3)), RNG.random((5, 3))
Y, NOISE = RNG.standard_normal(12), RNG.uniform(0.1, 0.3, 12)


def kernel(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.exp(-((left[:, None] - right[None]) ** 2).sum(axis=2))


def test_mean_and_variance_are_those_of_the_conditional_normal() -> None:
    posterior, cross = Posterior(kernel(X, X), NOISE), kernel(NEW, X)
    inverse = np.linalg.inv(kernel(X, X) + np.diag(NOISE))
    assert cross @ posterior.solve(Y) == pytest.approx(cross @ inverse @ Y)
    assert posterior.variance(np.ones(5), cross) == pytest.approx(np.diag(kernel(NEW, NEW) - cross @ inverse @ cross.T))
    assert posterior.inverse == pytest.approx(inverse)


def test_the_likelihood_is_that_of_the_normal_distribution() -> None:
    found = Posterior(kernel(X, X), NOISE).negative_log_likelihood(Y)
    normal = multivariate_normal(np.zeros(12), kernel(X, X) + np.diag(NOISE))
    assert found + 6 * np.log(2 * np.pi) == pytest.approx(-normal.logpdf(Y))


def test_what_is_left_out_is_predicted_from_the_others() -> None:
    means, variances = Posterior(kernel(X, X), NOISE).left_out(Y)
    for row in range(12):
        others = np.delete(np.arange(12), row)
        posterior, cross = Posterior(kernel(X[others], X[others]), NOISE[others]), kernel(X[[row]], X[others])
        assert means[row] == pytest.approx((cross @ posterior.solve(Y[others]))[0])
        assert variances[row] == pytest.approx(posterior.variance(np.ones(1), cross)[0] + NOISE[row])


@pytest.mark.parametrize("covariance", [np.ones((4, 4)), np.ones((4, 4)) - 1e-5 * np.eye(4)],
                         ids=["singular", "indefinite"])
def test_what_rounding_spoils_is_solved_with_jitter(covariance: np.ndarray) -> None:
    assert np.isfinite(Posterior(covariance, 0.0).solve(np.ones(4))).all()
