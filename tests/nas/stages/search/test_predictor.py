import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

from nas.stages.search.samplers import PredictorSampler
from search_spaces.errors import InputError

ROOT = Path(__file__).parents[4]
SPACE = {f"g{i:02d}": CategoricalDistribution((0, 1, 2, 3)) for i in range(12)}
MIXED = {"kind": CategoricalDistribution(("a", "b", None)), "flag": CategoricalDistribution((False, True)),
         "n": IntDistribution(1, 8), "big": IntDistribution(1, 4096, log=True),
         "share": FloatDistribution(0, 1, step=0.1),
         "rate": FloatDistribution(1e-5, 1, log=True), "x": FloatDistribution(-2, 2), "fixed": IntDistribution(3, 3)}


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def cost(params):
    assert type(params) is dict
    return float(sum(params.values()))


def loss(params):
    alone = sum((1 + i % 3) * math.sqrt(value) for i, value in enumerate(params.values()))
    return -alone - params["g00"] * params["g01"]


def both(params):
    return loss(params), cost(params)


def run(n, sampler=None, space=SPACE, directions=("minimize", "minimize"), values=both, study=None):
    study = study or optuna.create_study(directions=directions, sampler=sampler)
    for _ in range(n):
        trial = study.ask(space)
        study.tell(trial, values(trial.params))
    return study


def suggested(study):
    return [trial.params for trial in study.trials]


def two_objectives(seed=0, **options):
    return PredictorSampler(exact={1: cost}, seed=seed, n_startup=8, batch=8, **options)


def rebuilt(study, sampler, n):
    """A study of the first n trials of another, as a new process would read them."""
    found = optuna.create_study(directions=study.directions, sampler=sampler)
    found.add_trials(study.trials[:n])
    return found


@pytest.mark.parametrize("directions", [["minimize"], ["maximize"], ["minimize", "maximize"]])
def test_runs_any_kind_of_parameter_and_direction(directions):
    def objective(trial):
        x = [trial._suggest(name, distribution) for name, distribution in MIXED.items()]
        values = [x[3] * x[5] + abs(x[6]) + (x[0] == "a"), x[2] + x[4]][:len(directions)]
        return values if len(values) > 1 else values[0]

    study = optuna.create_study(directions=directions, sampler=PredictorSampler(seed=0, n_startup=6, batch=8))
    study.optimize(objective, n_trials=16)
    assert all(trial.state == TrialState.COMPLETE for trial in study.trials)
    for name, distribution in MIXED.items():
        assert all(distribution._contains(distribution.to_internal_repr(trial.params[name])) for trial in study.trials)
        assert all(type(trial.params[name]) in (int, float, str, bool, type(None)) for trial in study.trials)


def test_beats_random_search_and_spreads_over_the_cost():
    def reached(sampler):
        return np.array([(loss(params), cost(params)) for params in suggested(run(48, sampler))])

    ours, theirs = reached(two_objectives()), reached(optuna.samplers.RandomSampler(seed=0))
    assert ours[:, 1].min() == 0 and ours[:, 1].max() > theirs[:, 1].max()
    weights = np.linspace(0.2, 2, 7)
    assert all((ours @ (1, weight)).min() < (theirs @ (1, weight)).min() for weight in weights)


def test_the_best_of_a_single_learnt_objective_is_found():
    """One of 4**12 points."""
    study = run(30, PredictorSampler(seed=0), directions=["maximize"], values=lambda p: -loss(p))
    assert study.best_params == dict.fromkeys(SPACE, 3)
    assert study.best_trial.number >= 12


def test_two_exact_objectives_and_one_that_is_learnt_and_maximised():
    def memory(params):
        return float(params["g00"] + 3 * params["g05"])

    sampler = PredictorSampler(exact={0: cost, 2: memory}, seed=0, n_startup=8, batch=8)
    study = run(32, sampler, directions=["minimize", "maximize", "minimize"],
                values=lambda p: (cost(p), -loss(p), memory(p)))
    drawn = optuna.create_study(directions=study.directions, sampler=optuna.samplers.RandomSampler(seed=0))
    run(32, study=drawn, values=lambda p: (cost(p), -loss(p), memory(p)))
    score = [max(t.values[1] - t.values[0] - t.values[2] for t in one.trials) for one in (study, drawn)]
    assert score[0] > score[1]


@pytest.fixture(scope="module")
def whole():
    return run(20, two_objectives())


@pytest.mark.parametrize("n", [1, 5, 8, 10, 14])
def test_a_rebuilt_study_goes_on_as_if_it_had_not_stopped(whole, n):
    again = rebuilt(whole, two_objectives(), n)
    assert suggested(run(20 - n, study=again)) == suggested(whole)


def test_another_seed_proposes_others(whole):
    assert suggested(run(3, two_objectives(seed=1))) != suggested(whole)[:3]


def test_what_was_lost_in_the_middle_of_a_batch_is_proposed_again():
    """Trials 8 to 11 are one batch, for there are many parameters."""
    wide = {f"g{i:02d}": CategoricalDistribution((0, 1, 2, 3)) for i in range(20)}
    whole = run(12, two_objectives(), wide)
    resumed = rebuilt(whole, two_objectives(), 9)
    resumed.add_trials(whole.trials[10:12])
    assert resumed.ask(wide).params == whole.trials[9].params


def test_parallel_trials_differ_and_running_ones_are_not_proposed_again():
    study = run(8, two_objectives())
    waiting = [study.ask() for _ in range(4)]
    params = [{name: trial._suggest(name, one) for name, one in SPACE.items()} for trial in reversed(waiting)]
    params += [study.ask(SPACE).params for _ in range(3)]
    assert len({tuple(one.values()) for one in [*params, *suggested(study)[:8]]}) == 15


def test_no_architecture_twice_while_others_are_left():
    def key(params):
        return tuple(params[f"g{i:02d}"] for i in range(3))

    space = {name: SPACE[name] for name in ("g00", "g01", "g02")}
    study = run(70, PredictorSampler(exact={1: cost}, key=key, seed=0, n_startup=8, batch=16), space)
    keys = [key(params) for params in suggested(study)]
    assert len(set(keys[:64])) == 64
    assert set(keys[64:]) <= set(keys[:64])


def test_many_genotypes_of_one_architecture():
    def key(params):
        return tuple(params[f"g{i:02d}"] for i in range(params["g00"] + 3))

    study = run(40, PredictorSampler(exact={1: cost}, key=key, seed=0, distributions=SPACE))
    assert len({key(params) for params in suggested(study)}) == 40


def test_constraints_hold_from_the_first_trial_on():
    limits = [lambda p: cost(p) - 9, lambda p: 4 - cost(p)]
    study = run(30, two_objectives(constraints=limits, distributions=SPACE))
    assert all(4 <= cost(params) <= 9 for params in suggested(study))


def test_constraints_nothing_satisfies_end_all_the_same():
    study = run(12, two_objectives(constraints=[lambda p: 5 + cost(p)], distributions=SPACE))
    assert min(map(cost, suggested(study))) == 0


def test_failed_pruned_and_infinite_trials_are_neither_learnt_from_nor_proposed_again():
    study = optuna.create_study(directions=["minimize"], sampler=PredictorSampler(seed=0, n_startup=6, batch=8))
    for n in range(30):
        trial = study.ask(SPACE)
        if n % 3 == 0:
            study.tell(trial, state=TrialState.FAIL)
        elif n % 3 == 1:
            trial.report(1.0, 0)
            study.tell(trial, state=TrialState.PRUNED)
        else:
            study.tell(trial, math.inf if n % 2 else loss(trial.params))
    assert len({tuple(params.values()) for params in suggested(study)}) == 30


def test_trials_found_infeasible_do_not_mislead():
    study = run(8, two_objectives())
    for _ in range(4):
        study.add_trial(create_trial(params=dict.fromkeys(SPACE, 1), distributions=SPACE, values=[-1e9, 0.0],
                                     system_attrs={"constraints": [1.0]}))
    assert len({tuple(params.values()) for params in suggested(run(6, study=study))[8:]}) == 7


def test_parameters_that_not_all_trials_have():
    def objective(trial):
        x = trial.suggest_float("x", -1, 1)
        return x**2 + (trial.suggest_float("y", 0, 1) if x > 0 else trial.suggest_int("z", 0, 3))

    study = optuna.create_study(sampler=PredictorSampler(seed=0, n_startup=4, batch=4))
    study.optimize(objective, n_trials=4)
    study.enqueue_trial({"x": 0.5})
    study.optimize(objective, n_trials=12)
    assert len(study.trials) == 16


def test_many_exact_values_in_one_call():
    sizes = []

    def costs(some):
        sizes.append(len(some))
        return np.array([cost(params) for params in some])

    sampler = PredictorSampler(exact_many={1: costs}, seed=0, n_startup=8, batch=8)
    assert suggested(run(14, sampler)) == suggested(run(14, two_objectives()))
    assert max(sizes) > 50


def test_user_mistakes():
    with pytest.raises(InputError, match="objective 2 "):
        run(2, PredictorSampler(exact={2: cost}))
    with pytest.raises(InputError, match="hints: 1 rows for 128 parameters"):
        run(8, PredictorSampler(exact={1: cost}, hints=lambda some: [[1.0]], distributions=SPACE))
    with pytest.raises(InputError, match="-1"):
        PredictorSampler(seed=-1)
    with pytest.raises(InputError, match="0"):
        PredictorSampler(batch=0)


def test_the_same_under_another_hash_seed():
    script = ("import optuna; optuna.logging.set_verbosity(40)\n"
              "from tests.nas.stages.search.test_predictor import *\n"
              "print([list(p.values()) for p in suggested(run(14, two_objectives()))])")
    found = {subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT,
                            env={**os.environ, "PYTHONHASHSEED": seed}).stdout for seed in ("1", "2")}
    assert len(found) == 1
    assert found.pop().startswith("[[")
