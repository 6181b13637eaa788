"""Attention with shared keys and values, against attention written down, and through every pass over a plan."""

import dataclasses
import random
import re

import pytest
import torch

from nas.core.measures.cache_bytes import cache_bytes
from nas.costs import count
from search_spaces import Architecture, BlockConfig, InputError, Layer, load_space
from search_spaces.kind import Facts
from search_spaces.space.inventory import inventory
from search_spaces.units import make_unit, plan, shared_layers
from supernet import Supernet, Transformer, extract
from supernet.build import build_unit, fresh
from supernet.call import Call
from supernet.train.ordering.groups import find_groups
from supernet.train.strategy import drop_layers
from supernet.train.theseus import predecessor

FACTS = Facts(width=16, context=12, vocab_size=11, n_classes=0, n_types=0, causal=True, positions="rotary",
              norm="layernorm", placement="pre", bias=True)
LOOKUP = BlockConfig.of("lookup", {"rank": 16, "positions_at": "width", "norm_after": False, "scale": False})
FFN = BlockConfig.of("ffn", {"inner": 16, "activation": "relu", "gated": False})


def mixer(group: int = 0, n_heads: int = 4, n_kv_heads: int = 2) -> BlockConfig:
    return BlockConfig.of("shared_attention", {"n_heads": n_heads, "head_dim": 4, "n_kv_heads": n_kv_heads,
                                               "group": group})


def lm(*mixers: BlockConfig, slots: tuple[int, ...] = ()) -> Architecture:
    layers = tuple(Layer(block, FFN, slot, i) for i, (block, slot) in enumerate(zip(mixers, slots or range(9))))
    return Architecture("lm", 11, 12, 16, LOOKUP, BlockConfig.of("linear", {"head_rank": 16}), decoder=layers)


def encoder(*mixers: BlockConfig, slots: tuple[int, ...], pooled: int) -> Architecture:
    """With pooling after one layer."""
    pool = BlockConfig.of("pool", {"factor": 2})
    layers = tuple(Layer(block, FFN, slot, i, between=pool if i == pooled else None,
                         between_slot=i if i == pooled else None) for i, (block, slot) in enumerate(zip(mixers, slots)))
    return Architecture("encoder", 11, 12, 16, LOOKUP,
                        BlockConfig.of("classifier", {"pool": "mean", "pooler": False}), layers, n_classes=2)


def firsts(arch: Architecture) -> list[bool]:
    return [bool(dict(step.unit.facts)["first"]) for step in plan(arch) if step.role == "mixer"]


@torch.no_grad()
def test_a_later_layer_attends_to_the_keys_and_values_of_the_first() -> None:
    modules = [fresh(build_unit(make_unit("mixer", mixer(), dataclasses.replace(FACTS, first=first, positions="none"))),
                     torch.Generator().manual_seed(0)).block for first in (True, False)]
    x, y, call = torch.randn(1, 5, 16), torch.randn(1, 5, 16), Call(shared={})
    modules[0](x, call)
    given = modules[1](y, call)
    opener, later = modules
    for head in range(4):
        q = later.q(y)[0, :, 4 * head : 4 * head + 4]
        k, v = (part(x)[0, :, 4 * (head // 2) : 4 * (head // 2) + 4] for part in (opener.k, opener.v))
        rows = [((q[i] @ k[: i + 1].T) / 2).softmax(-1) @ v[: i + 1] for i in range(5)]
        found = torch.stack(rows) @ later.o.weight[:, 4 * head : 4 * head + 4].T
        given = given - found
    assert torch.allclose(given, later.o.bias.expand_as(given), atol=1e-5)


def test_the_first_layer_of_a_group_and_shape_computes() -> None:
    assert firsts(lm(mixer(), mixer(), mixer(1), mixer(), mixer(1))) == [True, False, True, False, False]
    assert firsts(lm(mixer(), mixer(n_kv_heads=1), mixer(n_heads=2))) == [True, True, False]
    assert shared_layers(lm(mixer(), mixer(), mixer(1))) == {("decoder", 0)}


def test_layers_of_one_slot_do_the_same_at_every_length() -> None:
    assert firsts(lm(mixer(), mixer(), mixer(), slots=(0, 0, 2))) == [True, True, False]
    arch = encoder(mixer(), mixer(), mixer(), mixer(), slots=(0, 1, 1, 3), pooled=1)
    assert firsts(arch) == [True, True, True, False]  # slot 1 runs before and after pooling
    assert Transformer(arch, seed=0)(torch.randint(0, 11, (2, 9))).shape == (2, 2)


def test_counts_and_the_cache_know_what_is_held_once() -> None:
    alone, shared = lm(mixer(), mixer(1)), lm(mixer(), mixer())
    maps = 2 * (16 * 8 + 8)  # keys and values: two heads of four channels
    assert count(alone, seq_len=8).params - count(shared, seq_len=8).params == maps
    assert count(shared, seq_len=8).params == sum(p.numel() for p in Transformer(shared).parameters())
    assert count(alone, seq_len=8).macs - count(shared, seq_len=8).macs == 2 * 8 * 16 * 8
    assert cache_bytes(shared, 8) * 2 == cache_bytes(alone, 8) == 2 * 2 * 2 * 8 * 4 * 4


@torch.no_grad()
def test_decoding_equals_the_whole_forward() -> None:
    model = Transformer(lm(mixer(), mixer(n_heads=2), mixer(1), mixer()), seed=0).eval()
    tokens = torch.randint(0, 11, (2, 9))
    whole, cache = model(tokens), model.start(2)
    for begin, end in ((0, 4), (4, 5), (5, 9)):
        logits, cache = model.decode(tokens[:, begin:end], cache)
        assert torch.allclose(logits, whole[:, begin:end], atol=1e-5)
    assert [len(state) for state in cache.states] == [2, 0, 0, 0, 2, 0, 0, 0]


def test_recomputing_in_the_backward_pass_changes_no_gradient() -> None:
    model, gradients = Transformer(lm(mixer(), mixer(), mixer(1), mixer(1)), seed=0), []
    tokens = torch.randint(0, 11, (2, 9))
    for model.checkpointing in (False, True):
        model.zero_grad()
        model(tokens).logsumexp(-1).sum().backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(*gradients))


@torch.no_grad()
def test_the_zoo_stores_what_every_architecture_needs() -> None:
    space, rng, seen = load_space("zoo-lm"), random.Random(0), 0
    units, net = inventory(space), Supernet(space, seed=0).eval()
    tokens = torch.randint(0, 512, (2, 20))
    while seen < 3:
        arch = space.sample(rng)
        if shared_layers(arch):
            seen += 1
            assert all(step.unit in units[step.path] for step in plan(arch))
            assert torch.allclose(net(arch, tokens), extract(net, arch).eval()(tokens), atol=1e-4)


def test_layer_drop_keeps_the_layers_that_others_need() -> None:
    arch, rng = lm(mixer(), mixer(1), mixer(), mixer(2)), random.Random(0)
    kept = [drop_layers(arch, 0.9, rng).decoder for _ in range(20)]
    assert all(layers[0] == arch.decoder[0] for layers in kept) and any(len(layers) == 1 for layers in kept)


def test_ordering_leaves_shared_heads_alone() -> None:
    groups = find_groups(lm(mixer(), mixer()))
    assert {name for name in groups.left_alone if "mixer" in name} == {
        "decoder.0.mixer n_kv_heads", "decoder.0.mixer head_dim", "decoder.1.mixer n_heads", "decoder.1.mixer head_dim"}
    assert any(group.name == "decoder.0.mixer n_heads" and group.within == 2 for group in groups.groups)


def test_theseus_needs_layers_that_can_be_replaced() -> None:
    space, rng = load_space("zoo-lm"), random.Random(0)
    student = next(arch for arch in iter(lambda: space.sample(rng), None) if shared_layers(arch))
    with pytest.raises(InputError, match=re.escape(student.key[:12])):
        predecessor(space, student)
