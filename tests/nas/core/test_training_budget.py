import pytest

from nas.core.costs import count
from nas.core.training_budget import with_steps
from nas.stages.train.request import TrainRequest
from search_spaces import InputError, load_space
from supernet.train.strategy import make_strategy


@pytest.mark.parametrize(("strategy", "steps"), [("turns", 1200), ("sandwich", 300), ("balanced", 400)])
def test_equal_passes_are_fewer_steps_of_more_architectures(strategy, steps):
    settings = with_steps({"passes": 1200, "strategy": strategy, "n_random": 2}, "lm-tiny")
    assert settings["steps"] == steps and "passes" not in settings


def test_accumulated_batches_are_passes_too():
    assert with_steps({"passes": 1200, "accumulate": 4}, "lm-tiny")["steps"] == 300


@pytest.mark.parametrize("strategy", ["turns", "sandwich"])
def test_multiply_adds_pay_for_what_is_drawn(strategy):
    space = load_space("lm-tiny")
    steps = with_steps({"macs": "2G", "strategy": strategy, "batch_size": 4}, space)["steps"]
    drawn = make_strategy(strategy, space, 0, 2, steps)
    spent = 4 * sum(count(arch, space.context).macs for step in range(steps) for arch in drawn.draw(step))
    assert spent == pytest.approx(2e9, rel=0.15)


def test_settings_without_a_budget_stay():
    assert with_steps({"steps": 7, "lr": 0.1}, None) == {"steps": 7, "lr": 0.1}


@pytest.mark.parametrize(("settings", "sentence"), [
    ({"passes": 10, "steps": 5}, "passes: cannot be combined with steps"),
    ({"passes": 10, "macs": 5}, "macs: cannot be combined with passes"),
    ({"passes": "many"}, "'many' is not allowed"),
    ({"passes": -3}, "-3 is not allowed"),
    ({"macs": True}, "True is not allowed"),
    ({"macs": 5}, "is less than one step of 'turns' needs"),
])
def test_a_wrong_budget_is_named(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        with_steps(settings, "lm-tiny")


def test_a_run_stores_the_steps_of_its_budget():
    request = TrainRequest(space="lm-tiny", task="lm", run="new", training={"passes": 40})
    assert request.new_config().training.steps == 40
