"""Every kind can stand in a supernet that is ordered by importance: its architectures compute what they did before."""

import random

import pytest

from nas.testing.examples import all_kinds, space_data, space_facts, valid_configs
from search_spaces import registry as kinds
from search_spaces.files.loader import space_from_data
from supernet.train.ordering import order
from supernet.train.ordering.groups import WIDTH, find_groups
from tests.parity import randomised
from tests.supernet.test_ordering import calibration, outputs

EVERY = [name for name in all_kinds() if kinds.get(name).role != "restore"]
FIXED_WIDTH = {"lsra": "splits the channels between branches", "fnet": "transforms the channels by frequency",
               "synthesizer": "computes the weights of a head from its own share of the channels"}
"""Kinds whose channels have a meaning by their place, and why."""


def small_space(name, **dims):
    kind = kinds.get(name)
    configs = [{**config, **dims} for config in valid_configs(kind, *space_facts(kind), most=3)]
    return space_from_data(space_data(kind, configs), name)


@pytest.mark.parametrize("name", EVERY)
def test_ordering_keeps_what_an_architecture_computes(name):
    space = small_space(name)
    batches, rng = calibration(space, 1), random.Random(0)
    for arch in (space.largest(), space.sample(rng)):
        net = randomised(space).double().eval()
        before = outputs(net, batches[0], arch)
        report = order(net, batches, arch=arch)
        after = outputs(net, batches[0], arch)
        assert (before - after).abs().max() <= 1e-9 * before.abs().max(), report.orders.keys()


@pytest.mark.parametrize("name", EVERY)
def test_the_width_is_ordered_unless_channels_have_fixed_places(name):
    assert (WIDTH in find_groups(small_space(name).largest()).left_alone) == (name in FIXED_WIDTH)


def test_a_model_that_gives_its_hidden_states_keeps_their_order():
    assert WIDTH in find_groups(small_space("features", pooler=False).largest()).left_alone
