"""PredictorSampler in studies other than our searches: small, conditional, with extreme numbers and odd values."""

import math
import warnings

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

from nas.core.pareto import best, layers, undominated
from nas.stages.search.samplers import PredictorSampler
from nas.stages.search.samplers._activity import Activity
from nas.stages.search.samplers._scales import Scale, hull, tamed
from search_spaces.errors import InputError
from tests.nas.stages.search.sampler_fuzz import fuzz
from tests.nas.stages.search.test_predictor import cost, run

BITS = {name: CategoricalDistribution((0, 1)) for name in "abc"}


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)


def small(seed=0, **options):
    return PredictorSampler(seed=seed, n_startup=4, batch=4, **options)


def branches(trial):
    """One parameter or the other, by a choice."""
    if trial.suggest_categorical("opt", ["adam", "sgd"]) == "adam":
        return trial.suggest_float("x", 0, 1)
    return trial.suggest_int("y", 0, 30) / 30


def optimized(objective, n, sampler, **options):
    study = optuna.create_study(sampler=sampler, **options)
    study.optimize(objective, n_trials=n)
    return study


def test_random_studies_neither_fail_nor_hang_nor_leave_their_distributions():
    tally = fuzz(range(20), seed=2026, strict=True)
    assert (tally.studies, tally.exceptions, tally.hangs, tally.outside) == (20, 0, 0, 0), tally.kinds


@pytest.mark.parametrize("seed", range(4))
def test_a_space_of_eight_points_is_searched_to_its_end(seed):
    study = run(20, small(seed), BITS, ["minimize"], lambda params: float(sum(params.values())))
    assert len({tuple(trial.params.values()) for trial in study.trials[:8]}) == 8
    assert study.best_value == 0


@pytest.mark.parametrize("seed", range(4))
def test_a_conditional_parameter(seed):
    study = optimized(branches, 30, small(seed))
    assert all(trial.state == TrialState.COMPLETE for trial in study.trials)
    assert study.best_value < 0.02


def test_conditional_parameters_are_learnt_where_they_exist():
    """Only a model of x and y finds their best values to 1 %; random values of them do so once in 100 trials."""
    def objective(trial):
        if trial.suggest_categorical("opt", ["adam", "sgd"]) == "adam":
            return abs(trial.suggest_float("x", 0, 1) - 0.3)
        return 0.2 + abs(trial.suggest_float("y", 0, 1) - 0.7)

    found = [optimized(objective, 36, small(seed)) for seed in range(3)]
    assert all(study.best_value < 0.01 for study in found)
    late = [trial.params["opt"] for study in found for trial in study.trials[20:]]
    assert late.count("adam") > 0.6 * len(late)


def test_a_conditional_study_that_is_resumed_gets_the_same_trials():
    whole = optimized(branches, 24, small())
    for n in (3, 9, 17):
        again = optuna.create_study(sampler=small())
        again.add_trials(whole.trials[:n])
        again.optimize(branches, n_trials=24 - n)
        assert [trial.params for trial in again.trials] == [trial.params for trial in whole.trials]


def test_no_point_of_a_conditional_study_is_tried_twice():
    def objective(trial):
        n = trial.suggest_int("n", 1, 6)
        return sum(trial.suggest_float(f"u{i}", 0, 1) for i in range(n)) + 1 / n

    study = optimized(objective, 40, small())
    assert len({tuple(sorted(trial.params.items())) for trial in study.trials}) == 40


def test_activity_is_a_rule_over_the_parents():
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.integers(3, size=60), rng.random((60, 3))])
    present = np.ones((60, 4), dtype=bool)
    present[:, 1] = rows[:, 0] == 1
    present[:, 2] = present[:, 1] & (rows[:, 1] > 0.5)
    learnt = Activity(rows, present, np.array([False, True, True, True]))
    assert (learnt(rows) == present).all()
    assert learnt(np.array([[1, 0.9, 0, 0], [0, 0.9, 0, 0], [1, 0.1, 0, 0.0]])).tolist() == [
        [True, True, True, True], [True, False, False, True], [True, True, False, True]]


@pytest.mark.parametrize("seed", range(3))
def test_user_functions_get_the_parameters_of_a_trial(seed):
    """They read parameters of one branch only, as the objective does; none is asked for what a trial cannot have."""
    def price(params):
        assert set(params) in ({"opt", "x"}, {"opt", "y"}), params
        return 2 * params["x"] if params["opt"] == "adam" else float(params["y"])

    def limit(params):
        return params["x"] - 0.8 if params["opt"] == "adam" else -1.0

    def key(params):
        return ("x", round(params["x"], 2)) if params["opt"] == "adam" else ("y", params["y"])

    def objective(trial):
        value = branches(trial)
        return value, price(trial.params)

    sampler = small(seed, exact={1: price}, constraints=[limit], key=key)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        study = optimized(objective, 24, sampler, directions=["maximize", "minimize"])
    assert {trial.params["opt"] for trial in study.trials} == {"adam", "sgd"}
    assert all(trial.params.get("x", 0) <= 0.8 for trial in study.trials[8:])


def test_a_mistake_in_a_user_function_is_shown():
    with pytest.raises(KeyError, match="widht"):
        run(4, small(exact={1: lambda params: params["widht"]}), BITS, values=lambda params: (0.0, 1.0))


@pytest.mark.parametrize("step, n", [(0.1, 7), (0.01, 61)])
def test_a_stepped_float_reaches_both_ends_and_nothing_beside_its_steps(step, n):
    spread = FloatDistribution(0.1, 0.7, step=step)
    study = run(n + 12, small(), {"x": spread}, ["minimize"], lambda params: -params["x"])
    found = {trial.params["x"] for trial in study.trials}
    assert study.best_params == {"x": 0.7}
    assert found <= {round(0.1 + i * step, 2) for i in range(n)}


@pytest.mark.parametrize("spread", [
    FloatDistribution(0.1, 0.7, step=0.1), FloatDistribution(-1.7e308, 1.7e308), FloatDistribution(5e-324, 1, log=True),
    FloatDistribution(1, 1e308, log=True), IntDistribution(1, 2**40, log=True), IntDistribution(-50, 2**53),
    IntDistribution(1, 1000, step=3), FloatDistribution(0, 3e307, step=1e300)])
def test_numbers_and_values_are_each_other_s_inverse(spread):
    scale = Scale(spread)
    for number in np.linspace(0, 1, 23):
        value = scale.value(number)
        assert spread._contains(value)
        assert scale.value(scale.number(value)) == pytest.approx(value, rel=1e-9)
    assert scale.value(0) == pytest.approx(spread.low) and scale.value(1) == pytest.approx(spread.high)


@pytest.mark.parametrize("size", [1e300, 1.7e308, 1e-300, 5e-324, 0.0])
@pytest.mark.parametrize("directions", [["minimize"], ["minimize", "maximize"]])
def test_objectives_of_any_size(size, directions):
    def values(params):
        return [size * math.tanh(params["x"] / 1e308 - i) for i in range(len(directions))]

    space = {"x": FloatDistribution(-1.7e308, 1.7e308), "n": IntDistribution(0, 5)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        study = run(16, small(exact={0: lambda params: values(params)[0]}), space, directions, values)
    assert len({tuple(trial.params.values()) for trial in study.trials}) == 16


def test_tiny_objectives_are_learnt_like_others():
    found = [run(24, small(), {"x": FloatDistribution(0, 1)}, ["minimize"],
                 lambda params, size=size: size * (params["x"] - 0.37) ** 2).best_params["x"] for size in (1e-200, 1.0)]
    assert found == pytest.approx([0.37, 0.37], abs=0.02)


def test_what_is_not_a_number_dominates_nothing():
    points = np.array([[np.nan, 0.0], [1.0, 1.0], [0.0, np.nan], [2.0, 2.0]])
    assert undominated(points).tolist() == [True, True, True, False]
    assert layers(points, np.zeros(4), 4).max() == 1
    assert best(points, np.zeros(4), 2).shape == (2,)


def test_tamed_numbers_keep_their_order():
    values = np.array([-1.7e308, -1e200, -3.0, 0.0, 1e-300, 5.0, 1e99, 1e150, 1e308])
    found = tamed(values)
    assert (np.diff(found) > 0).all() and np.isfinite(found**2).all()
    assert found[2:7].tolist() == values[2:7].tolist()


def test_one_key_for_all_points():
    space = {"x": FloatDistribution(0, 1), "y": IntDistribution(0, 9)}
    study = run(12, small(key=lambda params: "same"), space, ["minimize"], lambda params: params["x"])
    assert len(study.trials) == 12


@pytest.mark.filterwarnings("ignore:Choices for a categorical distribution")
def test_choices_and_their_values_may_be_lists():
    space = {"kernels": CategoricalDistribution(([3], [3, 5], [3, 5, 7])), "n": IntDistribution(0, 3)}
    study = run(20, small(), space, ["minimize"], lambda params: len(params["kernels"]) + params["n"])
    assert study.best_params == {"kernels": [3], "n": 0}
    assert len({str(trial.params) for trial in study.trials[:12]}) == 12


def test_choices_that_optuna_takes_for_equal_are_one_point():
    space = {"a": CategoricalDistribution((1, True, 2)), "b": CategoricalDistribution((0, 1))}
    study = run(6, small(), space, ["minimize"], lambda params: 1.0)
    assert len({tuple(trial.params.values()) for trial in study.trials[:4]}) == 4


def test_an_unhashable_key_is_named():
    with pytest.raises(InputError, match=r"key: \[0.*\] is a list, which is not hashable"):
        run(3, small(key=lambda params: [0, *params.values()]), BITS, ["minimize"], lambda params: 1.0)


def test_an_exact_value_that_contradicts_a_trial_is_noticed_once():
    sampler = small(exact={1: cost})
    with pytest.warns(UserWarning) as noticed:
        run(12, sampler, BITS, values=lambda params: (1.0, cost(params) + 0.5))
    assert len(noticed) == 1
    assert "exact[1] gives 0.0 for the parameters of trial 0" in str(noticed[0].message) or (
        "of trial" in str(noticed[0].message) and "objective 1 is" in str(noticed[0].message))


def test_exact_values_that_agree_are_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(12, small(exact={1: lambda params: math.nan if params["a"] else cost(params)}), BITS,
            values=lambda params: (1.0, float(np.float32(cost(params) / 3) * 3)))


def test_a_range_that_changes_from_trial_to_trial():
    def objective(trial):
        x = trial.suggest_float("x", 0, 1)
        y = trial.suggest_float("y", 0, 1 - x)
        n = trial.suggest_int("n", 0, 3 + trial.number)
        assert y <= 1 - x and n <= 3 + trial.number
        return -y + abs(n - 5) + x

    study = optimized(objective, 30, small())
    assert study.best_value < -0.8


def test_the_hull_of_distributions():
    assert hull([IntDistribution(2, 8, step=2), IntDistribution(4, 12, step=2)]) == IntDistribution(2, 12, step=2)
    assert hull([IntDistribution(2, 8, step=2), IntDistribution(1, 9, step=2)]) == IntDistribution(1, 9)
    assert hull([FloatDistribution(0, 1), FloatDistribution(-1, 0.5)]) == FloatDistribution(-1, 1)
    assert hull([FloatDistribution(0, 1), IntDistribution(0, 1)]) == IntDistribution(0, 1)


def test_trials_of_another_study_with_other_kinds_of_parameters():
    study = optuna.create_study(sampler=small())
    for i in range(6):
        study.add_trial(create_trial(params={"x": i}, distributions={"x": IntDistribution(0, 9)}, value=float(i)))
    for i in range(6):
        study.add_trial(create_trial(params={"x": i / 6}, distributions={"x": FloatDistribution(0, 1)}, value=float(i)))
    assert 0 <= study.ask({"x": FloatDistribution(0, 1)}).params["x"] <= 1


def test_many_choices_need_no_square_of_their_number():
    from nas.stages.search.samplers import _model

    rng = np.random.default_rng(0)
    draw = _model.Draw(3000, 0, np.empty(0), 4, rng)
    held = sum(value.nbytes for value in vars(draw).values() if isinstance(value, np.ndarray))
    assert held < 4 * 3000 * 3000 * 8 / 10


def test_draws_of_pairs_have_the_covariance_of_the_kernel():
    from nas.stages.search.samplers import _model

    rng = np.random.default_rng(0)
    phi = rng.standard_normal((3, _model.EXACT_PAIRS + 40)) / 8
    found = np.concatenate([_model.Draw(phi.shape[1], 0, np.empty(0), 100, rng)(phi, np.empty((3, 0)), 1.0, np.empty(0))
                            for _ in range(4)], axis=1)
    linear = phi @ phi.T
    assert np.cov(found) == pytest.approx(linear + linear**2, abs=0.25 * (linear + linear**2).max())
