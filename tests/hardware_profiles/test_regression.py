from __future__ import annotations

import copy
import json
import warnings

import numpy as np
import pytest

from hardware_profiles import plausibility as sanity
from hardware_profiles.regression import Regressor, fit
from search_spaces import InputError

NAMES = ["depth", "width", "inner", "heads", "fixed"]


def measured(n: int, seed: int = 0, noise: float = 0.015) -> tuple[np.ndarray, np.ndarray]:
    """Rows of features, and latencies of a made-up device: a sum over layers, and noise."""
    rng = np.random.default_rng(seed)
    depth, width, heads = rng.integers(2, 13, n), rng.choice([128, 256, 384, 512], n), rng.choice([2, 4, 8], n)
    inner = width * rng.choice([1, 2, 4], n)
    ms = 2 + depth * (0.05 + 2e-5 * width**2 + 1e-5 * width * inner + 0.05 * heads)
    return np.stack([depth, width, inner, heads, np.full(n, 64)], 1).astype(float), ms * np.exp(
        noise * rng.standard_normal(n))


@pytest.fixture(scope="module")
def regressor() -> Regressor:
    return fit(NAMES, *measured(60))


def off(regressor: Regressor, rows: np.ndarray, ms: np.ndarray) -> float:
    return float(np.mean(np.abs(regressor.predict(rows)[0] / ms - 1)))


def test_a_law_of_products_is_found_within_its_noise(regressor: Regressor) -> None:
    rows, ms = measured(300, seed=1)
    predicted, std = regressor.predict(rows)
    assert off(regressor, rows, ms) < 0.02
    assert regressor.error == pytest.approx(off(regressor, rows, ms), abs=0.007)
    assert 0.5 < np.mean(np.abs(predicted - ms) < std) < 0.85


def test_what_is_no_sum_of_products_is_found_too() -> None:
    rows, ms = measured(360)
    ms = np.maximum(ms, 20) * (1 + 2 / rows[:, 3])
    assert off(fit(NAMES, rows[:60], ms[:60]), rows[60:], ms[60:]) < 0.06


def test_rows_that_were_disturbed_do_not_spoil_the_rest() -> None:
    rows, ms = measured(360)
    spoiled = ms[:60].copy()
    spoiled[:6] *= 1.4
    assert off(fit(NAMES, rows[:60], spoiled), rows[60:], ms[60:]) < 0.025


def test_the_deviation_grows_outside_of_what_was_measured(regressor: Regressor) -> None:
    inside = np.array([[6, 256, 512, 4, 64]], dtype=float)
    relative = [float(std[0] / ms[0]) for ms, std in (regressor.predict(inside * factor) for factor in (1, 4, 16))]
    assert relative[0] < 0.05 < 0.5 < relative[1] < relative[2]
    ms, std = regressor.predict(inside + [0, 0, 0, 0, 64])
    assert std[0] / ms[0] > 2 * relative[0], "a feature that never varied says nothing about other values of it"


def test_storing_changes_no_prediction(regressor: Regressor) -> None:
    again = Regressor.from_dict(json.loads(json.dumps(regressor.to_dict())))
    rows, _ = measured(20, seed=2)
    for before, after in zip(regressor.predict(rows), again.predict(rows)):
        np.testing.assert_array_equal(before, after)
    assert again.error == regressor.error
    assert again.to_dict() == regressor.to_dict()


def test_the_same_rows_give_the_same_regressor() -> None:
    rows, ms = measured(16)
    assert fit(NAMES, rows, ms).to_dict() == fit(NAMES, rows, ms).to_dict()


@pytest.mark.filterwarnings("ignore:rows .* have equal features")
def test_rows_of_little_weight_count_little() -> None:
    rows, ms = measured(340)
    halved = ms[:40] * np.where(np.arange(40) % 2, 0.5, 1.0)
    weights = np.where(np.arange(40) % 2, 1e-4, 1.0)
    assert off(fit(NAMES, rows[:40], halved, weights), rows[40:], ms[40:]) < 0.06
    assert off(fit(NAMES, rows[:40], halved), rows[40:], ms[40:]) > 0.1


def test_only_the_proportion_of_weights_matters() -> None:
    rows, ms = measured(12)
    weights = np.linspace(1, 2, 12)
    assert off(fit(NAMES, rows, ms, 8 * weights), rows, fit(NAMES, rows, ms, weights).predict(rows)[0]) < 1e-6


@pytest.mark.parametrize("n", [8, 12])
def test_columns_that_repeat_or_never_change_do_no_harm(n: int) -> None:
    rng = np.random.default_rng(0)
    depth = np.arange(1.0, n + 1)
    rows = np.stack([depth, 3 * depth, np.zeros(n), rng.choice([512.0, 640.0], n), np.full(n, 7.0)], 1)
    ms, std = fit(NAMES, rows, 5 + 2 * depth).predict(rows)
    np.testing.assert_allclose(ms, 5 + 2 * depth, rtol=0.02)
    assert np.all(std > 0)


def test_no_rows_give_no_predictions(regressor: Regressor) -> None:
    ms, std = regressor.predict(np.empty((0, 5)))
    assert ms.shape == std.shape == (0,)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, -3.0])
def test_impossible_latencies_are_named_by_row(value: float) -> None:
    rows, ms = measured(10)
    ms[3] = value
    with pytest.raises(InputError, match=rf"latency of row 4 is {value:g} ms; .* above 0"):
        fit(NAMES, rows, ms)
    ms[5] = -1
    with pytest.raises(InputError, match="row 4 .*and 1 more of 10 rows"):
        fit(NAMES, rows, ms)


def test_equal_latencies_are_refused() -> None:
    with pytest.raises(InputError, match="all 10 latencies equal 7 ms"):
        fit(NAMES, measured(10)[0], np.full(10, 7.0))


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(InputError, match="7 rows of measurements are too few; at least 8"):
        fit(NAMES, *measured(7))


@pytest.mark.parametrize("n", [30, 80])
def test_latencies_that_depend_on_nothing_are_refused(n: int) -> None:
    rows, ms = measured(n)
    with pytest.raises(InputError, match="does not depend on the architecture: randomly shuffled"):
        fit(NAMES, rows, np.random.default_rng(5).permutation(ms))


def test_few_rows_that_show_nothing_are_mostly_refused_as_too_few() -> None:
    refused = []
    for seed in range(30):
        try:
            sanity.check_dependence("pi", measured(9, seed)[0], np.random.default_rng(seed + 100).random(9))
        except InputError as error:
            refused.append(str(error))
    assert len(refused) >= 20
    assert all("or 9 rows are too few to show" in says for says in refused)


def test_nonsense_rarely_passes_and_sense_always_does() -> None:
    rng = np.random.default_rng(0)
    rows, ms = measured(40, noise=0.1)
    assert sanity.chance_of_dependence(rows, ms) < 0.01
    passed = [sanity.chance_of_dependence(rows, rng.permutation(ms)) <= sanity.CHANCE for _ in range(40)]
    assert sum(passed) <= 3


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda rows, ms: (rows[:-1], ms), "9 rows of features do not match 10 latencies"),
        (lambda rows, ms: (rows[:, :4], ms), "rows have 4 features, but 5 are named"),
        (lambda rows, ms: ([[1, 2], *rows.tolist()], ms), "rows of equal length"),
        (lambda rows, ms: (rows[0], ms), "features have 1 axes instead of 2"),
        (lambda rows, ms: (np.where(rows == rows[2, 0], np.nan, rows), ms), "feature depth of row .* is nan"),
        (lambda rows, ms: (-rows, ms), "feature depth of row 1 is -"),
        (lambda rows, ms: (np.ones_like(rows), ms), "every feature has the same value"),
        (lambda rows, ms: (rows, ms, np.ones(3)), "3 weights do not match 10"),
        (lambda rows, ms: (rows, ms, np.arange(10)), "weight of row 1 is 0"),
        (lambda rows, ms: (rows, ["fast"] * 10), "latencies are not a table of numbers"),
    ],
)
def test_tables_that_do_not_fit_are_refused(change, says: str) -> None:
    with pytest.raises(InputError, match=says):
        fit(NAMES, *change(*measured(10)))


def test_two_features_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="have the same name"):
        fit(["depth"] * 5, *measured(10))


def test_rows_that_contradict_each_other_are_told() -> None:
    rows, ms = measured(30)
    rows[7], ms[7] = rows[3], 3 * ms[3]
    with pytest.warns(UserWarning, match="rows 4 and 8 have equal features"):
        fit(NAMES, rows, ms)
    rows[7], ms[7] = rows[3], 1.02 * ms[3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(NAMES, rows, ms)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("schema_version",), 2, "schema_version"),
        (("error",), float("nan"), "error"),
        (("names",), ["depth"], "features must be rows of 1 numbers"),
        (("features", 0), [1.0], "features must be rows of 5 numbers"),
        (("members",), [], "members"),
        (("members", 0, "share"), 0.001, "shares of the members must sum to 1"),
        (("members", 0, "noise", 0), -1.0, "noise above 0"),
        (("members", 0, "target"), [0.0], "target and noise"),
        (("members", 0, "theta"), [0.0], "theta"),
        (("members", 0, "coefs"), [1.0] * 99, "coefs"),
        (("members", 0, "terms", 0), [9], "terms"),
        (("members", 0, "terms"), [], "terms"),
        (("surprise",), 1, "surprise"),
    ],
)
def test_damaged_data_is_refused(regressor: Regressor, path: tuple[str | int, ...], value: object, says: str) -> None:
    data = copy.deepcopy(regressor.to_dict())
    place = data
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    with pytest.raises(InputError, match=says):
        Regressor.from_dict(data)


def test_data_that_is_cut_off_is_refused(regressor: Regressor) -> None:
    for name in regressor.to_dict():
        with pytest.raises(InputError, match=name):
            Regressor.from_dict({key: value for key, value in regressor.to_dict().items() if key != name})
    with pytest.raises(InputError):
        Regressor.from_dict([])  # type: ignore[arg-type]
