"""Counts against hand-made figures of cases small enough to do by hand."""

import pytest
import torch

from nas.core.costs import count, count_params, unit_costs
from nas.core.macs import unit_macs
from search_spaces import Architecture, BlockConfig, InputError, Layer, load_space
from search_spaces.units import plan

D, F, V, N = 8, 12, 30, 5


def lm(mixer, **changes):
    ffn = BlockConfig.of("ffn", {"inner": F, "activation": "gelu", "gated": False})
    embedding = BlockConfig.of("lookup", {"rank": D, "positions_at": "width", "norm_after": False, "scale": False})
    settings = {"family": "lm", "vocab_size": V, "context": 16, "width": D, "embedding": embedding,
                "head": BlockConfig.of("tied", {"projection": "shared"}), "decoder": (Layer(mixer, ffn, 0, 0),)}
    return Architecture(**{**settings, **changes})


def attention(n_heads=2, head_dim=4, n_kv_heads=2):
    return BlockConfig.of("attention", {"n_heads": n_heads, "head_dim": head_dim, "n_kv_heads": n_kv_heads})


def test_a_standard_layer_counts_as_the_text_books_say():
    cost = count(lm(attention()), seq_len=N)
    assert cost.macs == 4 * N * D * D + 2 * N * N * D + 2 * N * D * F + N * D * V
    layer = 4 * D * D + 4 * D + 2 * D * F + D + F + 2 * (2 * D)
    assert cost.params == V * D + 16 * D + layer + 2 * D
    assert cost.embedding_params == V * D + 16 * D
    assert cost.weight_bytes == 4 * cost.params


def test_grouped_key_value_heads_save_their_share():
    full, grouped = (count(lm(attention(4, 2, kv)), seq_len=N) for kv in (4, 1))
    assert full.macs - grouped.macs == 2 * N * D * 3 * 2
    assert full.params - grouped.params == 2 * (D + 1) * 3 * 2


@pytest.mark.parametrize("conv", ["light", "dynamic"])
def test_convolutions_count_their_window(conv):
    block = BlockConfig.of("conv", {"kernel": 3, "conv_heads": 2, "conv": conv, "glu": True})
    cost = next(cost for cost in unit_costs(lm(block), seq_len=N) if cost.step.unit.role == "mixer")
    kernels = N * D * 2 * 3 if conv == "dynamic" else 0
    assert cost.macs == N * 3 * D * D + kernels + N * 3 * D
    assert cost.params == 3 * D * D + 3 * D + (D * 2 * 3 if conv == "dynamic" else 2 * 3) + 2 * D


def test_shared_layers_cost_parameters_once_and_work_every_time():
    one = lm(attention())
    three = lm(attention(), decoder=one.decoder * 3)
    assert count(three, seq_len=N).params == count(one, seq_len=N).params
    layer = sum(cost.macs for cost in unit_costs(one, seq_len=N) if cost.step.layer == 0)
    assert count(three, seq_len=N).macs == count(one, seq_len=N).macs + 2 * layer


def test_conventions_differ_as_they_say():
    arch = lm(attention())
    plain, lite, delight = (count(arch, seq_len=N, convention=name).macs for name in ("plain", "lite", "delight"))
    assert plain - lite == N * D * V
    tokens = N * (N + 1) // 2
    biases = tokens * (4 * D + D + F)
    assert delight == sum(count(arch, seq_len=n).macs for n in range(1, N + 1)) + biases


def test_a_translator_charges_keys_and_values_to_the_source():
    space = load_space("seq2seq-small")
    cross = next(step for step in plan(space.smallest()) if step.unit.role == "cross")
    width, dims = dict(cross.unit.facts)["width"], dict(cross.unit.block.dims)
    inner, kv = dims["n_heads"] * dims["head_dim"], dims["n_kv_heads"] * dims["head_dim"]
    assert unit_macs(cross.unit, 3, 7) == 2 * 3 * width * inner + 2 * 7 * width * kv + 2 * 3 * 7 * inner


@pytest.mark.parametrize("name", ["lm-tiny", "encoder-small", "seq2seq-small"])
def test_parameters_are_those_of_the_model(name):
    from supernet import Transformer

    arch = load_space(name).largest()
    with torch.device("meta"):
        expected = sum(tensor.numel() for tensor in Transformer(arch).parameters())
    assert count_params(arch) == expected == count(arch, seq_len=4).params


@pytest.mark.parametrize(("keywords", "says"), [
    ({"seq_len": 0}, "seq_len: 0 is not allowed"),
    ({"seq_len": 17}, "17 is not allowed; allowed: 1 to the context 16"),
    ({"seq_len": 4, "convention": "narang"}, "'narang' is not allowed; allowed: plain"),
])
def test_wrong_arguments_are_told(keywords, says):
    with pytest.raises(InputError, match=says):
        count(lm(attention()), **keywords)
