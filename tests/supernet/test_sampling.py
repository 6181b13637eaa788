"""Which architectures a step trains."""

import random
from dataclasses import replace

import pytest
import torch

from search_spaces import InputError, load_space
from search_spaces.space.genotype import extreme
from supernet import Supernet, extract
from supernet.train.strategy import STRATEGIES, Progressive, drop_layers, generator, make_strategy
from tests.supernet.toys import LM, SEQ2SEQ

TINY = load_space("lm-tiny")
TOKENS = torch.arange(12).view(2, 6)


def drawn(name, seed=0, steps=40, space=TINY):
    strategy = make_strategy(name, space, seed, 2, steps)
    return [strategy.draw(step) for step in range(steps)]


@pytest.mark.parametrize("name", STRATEGIES)
def test_draws_depend_on_seed_and_step_alone(name):
    there = drawn(name)
    again = make_strategy(name, TINY, 0, 2, 40)
    assert [again.draw(step) for step in reversed(range(40))] == there[::-1]
    if name != "largest":
        assert len(set(there)) > 30
        assert drawn(name, seed=1) != there


def test_the_numbers_of_a_place_do_not_depend_on_other_places():
    assert generator(0, "a", 1).random() == generator(0, "a", 1).random()
    assert len({generator(seed, place, step).random() for seed in (0, 1) for place in "ab" for step in (0, 1)}) == 8
    assert generator(1, 23).random() != generator(12, 3).random()


def at_end(arch, end):
    """Whether an architecture of the toy space has everything but its kinds at that end."""
    kinds = {name: value for name, value in LM.encode(arch).items() if name.endswith(".kind")}
    return LM.decode({**extreme(LM, end), **kinds}) == arch


def test_a_sandwich_is_a_largest_a_smallest_and_samples():
    for archs in drawn("sandwich", space=LM):
        assert len(archs) == 4
        assert at_end(archs[0], -1) and at_end(archs[1], 0)
        assert archs[0].width == 12 and archs[0].depth == 3
        assert archs[1].width == 8 and archs[1].depth == 1
        assert all(arch in LM for arch in archs)
    assert [len(make_strategy("sandwich", LM, 0, n, 40).draw(3)) for n in (0, 1, 5)] == [2, 3, 7]


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_balanced_samples_share_out_the_values_of_every_gene(n):
    strategy = make_strategy("balanced", LM, 0, n, 40)
    for step in range(20):
        largest, *samples = strategy.draw(step)
        assert at_end(largest, -1) and len(samples) == n
    for name, values in LM.genes.items():
        dealt = strategy._shared_out(values, random.Random(5))
        often = [dealt.count(value) for value in values]
        assert len(dealt) == n and max(often) - min(often) <= 1, name


@pytest.mark.parametrize(("space", "kinds"), [(LM, {"conv", "attention"}), (TINY, {"delight", "attention"})])
def test_every_kind_is_trained_at_its_largest(space, kinds):
    """Long-short range attention is not among lm-tiny's: where all channels attend, it is attention."""
    slots = range(space.stacks["decoder"].slots)
    draws = drawn("sandwich", steps=60, space=space)
    assert {(layer.mixer_slot, layer.mixer.kind) for archs in draws for layer in archs[0].decoder} == {
        (slot, kind) for slot in slots for kind in kinds}
    assert len({layer.mixer.kind for archs in draws for layer in archs[1].decoder}) >= 2


def test_single_and_largest_train_one():
    assert all(len(archs) == 1 and archs[0] in TINY for archs in drawn("single"))
    assert set(drawn("largest")) == {(TINY.largest(),)}


ORDER = {"decoder.0.plain.ffn.ffn.inner": 1, "decoder.2.plain.mixer.kind": 1, "decoder.depth": 2,
         "decoder.sharing": 2, "width": 3, "embedding.lookup.rank": 3}


def test_progressive_opens_layers_then_depth_then_the_whole():
    strategy = Progressive(LM, 0, steps=40)
    assert {gene: strategy.stage_of(gene) for gene in ORDER} == ORDER
    widths, depths, inners = set(), set(), set()
    for step in range(60):
        archs = strategy.draw(step)
        top, others = archs[0], archs[1:]
        assert at_end(top, -1)
        widths |= {(step, arch.width) for arch in others if arch.width != top.width}
        depths |= {(step, arch.depth) for arch in others if arch.depth != top.depth}
        inners |= {(step, arch) for arch in others if any(layer.ffn != top.decoder[0].ffn for layer in arch.decoder)}
    first = [min(step for step, _ in found) for found in (inners, depths, widths)]
    assert first[0] > 0 and first == sorted(set(first))
    assert first[2] == 40  # which is where everything is open


def test_what_is_closed_stays_at_its_greatest():
    strategy = Progressive(TINY, 3, steps=300)
    assert [len(strategy.draw(step)) for step in (0, 50, 99)] == [1, 1, 1]
    for step in (100, 150, 199):
        for arch in strategy.draw(step):
            assert (arch.width, arch.depth) == (64, 4)
    assert all(arch.width == 64 for step in (200, 299) for arch in strategy.draw(step))
    drawn = [strategy.draw(step)[1] for step in (300, 500)]
    assert [(arch.width, arch.depth) for arch in drawn] == [(48, 1)] * 2


def test_searched_slots_open_with_the_depth():
    space = load_space("encoder-small")
    strategy = Progressive(space, 0, steps=3)
    assert strategy.stage_of("encoder.3.keep") == 2
    assert all(arch.depth == 6 for arch in strategy.draw(1))
    assert strategy.draw(2)[1].depth == 2


def test_progressive_over_no_steps_is_all_open():
    assert len(Progressive(LM, 0, steps=0).draw(0)) > 1


def test_an_unknown_strategy_is_refused_with_what_there_is():
    allowed = "sandwich, balanced, turns, single, largest, progressive"
    with pytest.raises(InputError, match=f"'sandwitch' is not allowed; allowed: {allowed}"):
        make_strategy("sandwitch", TINY, 0, 2, 10)


def test_turns_take_one_architecture_a_step_and_both_ends_every_four():
    strategy = make_strategy("turns", TINY, 0, 2, 10)
    drawn = [strategy.draw(step) for step in range(8)]
    assert all(len(archs) == 1 for archs in drawn)
    assert [drawn[step][0].depth for step in (0, 2, 4, 6)] == [4, 1, 4, 1]
    assert drawn == [make_strategy("turns", TINY, 0, 0, 99).draw(step) for step in range(8)]


def test_no_layer_is_dropped_at_rate_0():
    arch, rng = TINY.largest(), random.Random(0)
    assert drop_layers(arch, 0.0, rng) is arch
    assert rng.random() == random.Random(0).random()


@pytest.mark.parametrize("space", [TINY, SEQ2SEQ], ids=["lm", "seq2seq"])
def test_every_stack_keeps_a_layer(space):
    arch, seen = space.largest(), set()
    for seed in range(60):
        dropped = drop_layers(arch, 0.8, random.Random(seed))
        for name, layers in arch.stacks.items():
            kept = dropped.stacks[name]
            assert 1 <= len(kept) <= len(layers)
            assert list(kept) == [layer for layer in layers if layer in kept]
            seen |= {(name, layer.mixer_slot) for layer in kept if len(kept) == 1}
    assert seen == {(name, slot) for name, layers in arch.stacks.items() for slot in range(len(layers))}


def test_layers_are_dropped_at_their_rate():
    arch, rng = TINY.largest(), random.Random(0)
    kept = sum(drop_layers(arch, 0.25, rng).depth for _ in range(400))
    assert 0.72 < kept / (400 * arch.depth) < 0.78


@torch.no_grad()
def runs_alike(space, arch, dropped, *inputs):
    """The dropped architecture has one output in the supernet, in the plain model of the whole, and in its own."""
    net = Supernet(space).eval()
    whole, alone = extract(net, arch).eval(), extract(net, dropped).eval()
    assert torch.equal(net(dropped, *inputs), alone(*inputs))
    assert torch.equal(whole(*inputs, arch=dropped), alone(*inputs))
    assert not torch.equal(whole(*inputs), alone(*inputs))


@pytest.mark.parametrize("seed", range(3))
def test_what_is_left_runs_in_the_supernet_and_in_the_plain_model(seed):
    arch = TINY.largest(random.Random(seed))
    runs_alike(TINY, arch, drop_layers(arch, 0.5, random.Random(1)), TOKENS)


def test_what_is_left_of_seq2seq_runs():
    arch = SEQ2SEQ.largest()
    runs_alike(SEQ2SEQ, arch, drop_layers(arch, 0.6, random.Random(0)), TOKENS, TOKENS[:, :4])


@pytest.mark.parametrize("space", [TINY, LM, SEQ2SEQ], ids=["lm-tiny", "lm", "seq2seq"])
def test_layers_run_without_the_one_whose_weights_they_share(space):
    shared = {"decoder.sharing": "all", "encoder.sharing": "all"}
    if space is SEQ2SEQ:
        shared["decoder.sharing"] = "attention"
    genes = space.encode(space.largest())
    arch = space.decode({**genes, **{name: value for name, value in shared.items() if name in genes}})
    dropped = replace(arch, **{name: layers[1:] for name, layers in arch.stacks.items()})
    assert any(drop_layers(arch, 0.5, random.Random(seed)) == dropped for seed in range(99))
    assert all(layer.mixer_slot == 0 for layers in dropped.stacks.values() for layer in layers)
    inputs = (TOKENS, TOKENS[:, :4]) if space is SEQ2SEQ else (TOKENS,)
    runs_alike(space, arch, dropped, *inputs)
