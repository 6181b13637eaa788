"""What the predictor expects of points it has not seen."""

import math
import random

import numpy as np
import pytest
from optuna.distributions import CategoricalDistribution

from nas.core.costs import count
from nas.core.pricing import Prices
from nas.core.search_config import SearchConfig
from nas.stages.search.samplers import PredictorSampler
from nas.stages.search.samplers._encoding import Encoding
from nas.stages.search.samplers._known import Known
from nas.stages.search.samplers._pool import CandidatePool
from nas.stages.search.samplers._views import Evaluated, Predictions
from nas.stages.search.samplers.predictor import make
from nas.stages.search.setup import SearchSetup
from nas.stages.search.suggestions import Suggestions
from search_spaces import InputError, load_space
from tests.nas.stages.search.test_predictor import cost, run

NAMES = [f"g{i}" for i in range(8)]
ENCODING = Encoding({name: CategoricalDistribution((0, 1, 2, 3)) for name in NAMES})


def used(params):
    """The second half matters only where the first parameter says so."""
    return NAMES if params["g0"] > 1 else NAMES[:4]


def product(params):
    return math.prod(1 + params[name] for name in used(params))


def predicted(known, rows, wanted, loss):
    """What is expected at some rows after others were evaluated; of one of two objectives, for one alone is judged by
    the improvement that is expected."""
    pool = CandidatePool(ENCODING, known, np.empty(0))
    seen = pool.add(rows)
    values = np.array([[loss(pool.params(one))] * 2 for one in seen])
    view = Predictions(pool, Evaluated(seen, values), [], np.random.default_rng(0))
    return view(pool.add(wanted))[:, 0, 0]


@pytest.fixture
def rows():
    return ENCODING.sample(np.random.default_rng(0), 40)


def test_what_does_not_matter_is_not_learnt_from(rows):
    wanted = np.tile(rows[:1], (4, 1))
    wanted[:, 0], wanted[:, 7] = 0, np.arange(4)
    told = predicted(Known(active=used), rows, wanted, lambda params: float(params["g1"] + params["g7"]))
    untold = predicted(Known(), rows, wanted, lambda params: float(params["g1"] + params["g7"]))
    assert np.ptp(told) == pytest.approx(0, abs=1e-9)
    assert np.ptp(untold) > 1


def test_a_hint_is_followed(rows):
    def hints(some):
        return [[product(params), float("nan")] for params in some]

    def loss(params):
        return -math.log(product(params))

    wanted = ENCODING.sample(np.random.default_rng(1), 60)
    truth = np.array([loss(ENCODING.params(row)) for row in wanted])
    error = {name: np.abs(predicted(known, rows, wanted, loss) - truth).mean()
             for name, known in (("with", Known(hints=hints)), ("without", Known()))}
    assert error["with"] < 0.5 * error["without"]


@pytest.mark.parametrize("name", ["lm-tiny", "seq2seq-small"])
def test_costs_by_role_add_up(name):
    space, prices = load_space(name), Prices({}, 16)
    for arch in (space.smallest(), space.largest()):
        whole, found = count(arch, 16), np.array(prices.by_role(arch)).reshape(-1, 2).sum(axis=0)
        assert found.tolist() == [whole.params, whole.macs]


def test_what_a_search_knows_of_its_space_reaches_the_model(searchable):
    setup = SearchSetup(searchable, SearchConfig(objectives=("loss", "params")))
    problem, rng = Suggestions(setup).problem(), random.Random(0)
    some = [{name: rng.choice(values) for name, values in setup.space.genes.items()} for _ in range(5)]
    facts = make(problem, 0)._known.facts(some, range(5))
    for params, fact in zip(some, facts):
        arch, used = setup.space.read(params)
        assert fact.active == used
        assert list(fact.hints) == setup.prices.by_role(arch)
        assert fact.exact == (count(arch, 8).params,)


def test_where_nothing_is_new_nobody_is_asked():
    def hints(some):
        assert some
        return [[1.0] for _ in some]

    def costs(some):
        assert some
        return [float(params["g0"]) for params in some]

    space = {name: CategoricalDistribution((0, 1)) for name in NAMES[:2]}
    sampler = PredictorSampler(exact_many={1: costs}, hints=hints, distributions=space, seed=0, n_startup=2, batch=2)
    study = run(8, sampler, space=space, values=lambda params: (float(params["g1"]), float(params["g0"])))
    assert len({tuple(trial.params.values()) for trial in study.trials}) == 4


def test_hints_of_different_lengths_are_refused():
    known = Known(hints=lambda some: [[1.0] * (1 + params["g0"]) for params in some])
    pool = CandidatePool(ENCODING, known, np.empty(0))
    with pytest.raises(InputError, match="hints: have rows of 1 and 2 numbers"):
        for first in range(2):
            pool.add(np.eye(1, len(NAMES)) * first)


def test_a_search_that_is_told_both():
    calls = []

    def hints(some):
        calls.append(len(some))
        return [[cost(params)] for params in some]

    sampler = PredictorSampler(exact={1: cost}, seed=0, n_startup=8, batch=8, hints=hints,
                               active=lambda params: [name for name in params if name != "g11"])
    study = run(32, sampler)
    assert len({tuple(trial.params.values()) for trial in study.trials}) == 32
    assert max(calls) > 50
