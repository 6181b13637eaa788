"""Fixup: sub-layers are the identity at first because their last matrices are 0, not because of a factor."""

from __future__ import annotations

import random

import torch

from search_spaces import Architecture
from search_spaces.files.loader import space_from_text
from supernet import Supernet, Transformer, extract

SPACE = space_from_text("""
{schema_version: 1, name: fixup, family: lm, vocab_size: 20, context: 8, width: [8, 12], residual: [plain, fixup],
 embedding: {lookup: {}}, head: {tied: {}},
 decoder: {slots: 2, layers: {plain: {
   mixer: {attention: {n_heads: [1, 2], head_dim: 4}, short_conv: {},
           lsra: {ratio: 0.5, n_heads: 1, conv_heads: 2, kernel: 3}},
   ffn: {ffn: {inner: [1x, 2x]}, moe: {experts: 2, inner: 1x},
         pkm: {keys: 4, memory_heads: 1, top_k: 2, key_dim: 4}}}}}}
""", "fixup")


def archs(residual: str, n: int = 20) -> list[Architecture]:
    return [arch for arch in map(SPACE.sample, map(random.Random, range(2 * n))) if arch.residual == residual]


def test_every_layer_is_the_identity_at_first() -> None:
    net, tokens = Supernet(SPACE, seed=0), torch.arange(8)[None]
    for arch in archs("fixup"):
        for model in (Transformer(arch, seed=0).eval(), extract(net, arch).eval()):
            embedded = model.get_submodule("embedding")(tokens)
            assert all(torch.equal(features, embedded) for features in model(tokens, outputs=("features",))["features"])


def test_other_residuals_do_not_start_at_zero() -> None:
    net, tokens = Supernet(SPACE, seed=0), torch.arange(8)[None]
    for arch in archs("plain", 5):
        model = extract(net, arch).eval()
        assert not torch.equal(model(tokens, outputs=("features",))["features"][0],
                               model.get_submodule("embedding")(tokens))


def test_it_scales_what_the_block_makes_of_shifted_states() -> None:
    unit = next(iter(Transformer(archs("fixup")[0], seed=0).eval().get_submodule("decoder.0").children()))
    x = torch.randn(1, 8, 8)
    with torch.no_grad():
        unit.scale.fill_(3.0), unit.shift.fill_(0.5)
        assert torch.allclose(unit.add(x, torch.tanh), x + 3 * torch.tanh(x + 0.5))
