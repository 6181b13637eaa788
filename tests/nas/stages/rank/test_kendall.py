import numpy as np
import pytest
from scipy.stats import kendalltau

from nas.core.prediction_quality import tau
from nas.stages.rank.kendall import bootstrap, interval, taus


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("levels", [3, 1_000_000])
def test_taus_are_scipys_with_and_without_ties(seed, levels):
    x, y = np.random.default_rng(seed).integers(0, levels, (2, 30)).astype(float)
    assert taus(x, y, np.ones((1, 30)))[0] == pytest.approx(kendalltau(x, y).statistic) == pytest.approx(tau(x, y))


def test_a_resample_counts_as_its_rows_written_out():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 12))
    for row, found in zip(weights := bootstrap(12, 50, 0), taus(x, y, weights)):
        rows = np.repeat(np.arange(12), row.astype(int))
        assert found == pytest.approx(kendalltau(x[rows], y[rows]).statistic)


def test_drawing_values_twice_does_not_bias():
    rng = np.random.default_rng(0)
    x = rng.normal(size=24)
    y = x + rng.normal(size=24)
    assert taus(x, y, bootstrap(24, 10_000, 0)).mean() == pytest.approx(tau(x, y), abs=0.01)


def test_tau_of_a_constant_or_of_one_value_is_undefined():
    assert tau(np.ones(5), np.arange(5.0)) is None
    assert tau(np.ones(1), np.ones(1)) is None
    assert tau(np.ones(0), np.ones(0)) is None
    assert interval(np.full(9, np.nan)) == (None, None)


def test_the_interval_covers_the_tau_of_the_population():
    truth, covered = 2 / np.pi * np.arcsin(0.8), 0  # of a normal pair with correlation 0.8
    for seed in range(200):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=24)
        low, high = interval(taus(x, 0.8 * x + 0.6 * rng.normal(size=24), bootstrap(24, 500, seed)))
        covered += low <= truth <= high
    assert covered >= 180
