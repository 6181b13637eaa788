import numpy as np
import pytest

from nas.stages.rank.ceiling import Noise, ceiling, seed_noise

LOSSES = np.linspace(3, 4, 20)


def noise(sigma):
    return Noise(sigma, sigma / 2, sigma * 2, 4)


def test_without_noise_a_perfect_predictor_reaches_one():
    found = ceiling(LOSSES, noise(0.0), seed=0)
    assert (found.perfect, found.low, found.high) == (1, 1, 1)


def test_the_ceiling_falls_with_the_noise():
    found = [ceiling(LOSSES, noise(sigma), seed=0) for sigma in (0.01, 0.03, 0.1, 0.3)]
    assert all(a.perfect > b.perfect for a, b in zip(found, found[1:]))
    assert all(one.low < one.perfect < one.high for one in found[1:])


def test_losses_that_differ_by_noise_alone_leave_nothing_to_reach():
    assert ceiling(LOSSES, noise(1.0), seed=0).perfect == 0
    assert ceiling(np.full(5, 3.0), noise(0.1), seed=0).perfect == 0
    assert ceiling(LOSSES[:1], noise(0.1), seed=0) is None


def test_the_noise_is_that_of_one_training():
    rng = np.random.default_rng(0)
    first, second = LOSSES + rng.normal(0, 0.05, (2, 1000, 20))
    found = seed_noise(first.ravel(), second.ravel())
    assert found.sigma == pytest.approx(0.05, rel=0.02)
    assert found.low < 0.05 < found.high


def test_the_interval_of_the_noise_covers_it_with_few_repeats():
    rng = np.random.default_rng(0)
    found = [seed_noise(*rng.normal(0, 0.05, (2, 4))) for _ in range(500)]
    assert 0.92 < np.mean([one.low <= 0.05 <= one.high for one in found]) < 0.98


def test_architectures_trained_once_tell_no_noise():
    missing = np.full(3, np.nan)
    assert seed_noise(LOSSES[:3], missing) is None
    assert seed_noise(np.array([1.0, 2.0]), np.array([1.2, np.nan])).repeats == 1
