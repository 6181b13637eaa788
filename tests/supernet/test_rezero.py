"""ReZero: the identity at first, without norms; the contract suite of residuals covers the rest."""

from __future__ import annotations

import random

import torch

from search_spaces.files.loader import space_from_text
from search_spaces.units import SUBLAYERS, plan
from supernet import Transformer
from tests.supernet.toys import supernet_trainer

SPACE = space_from_text("""
{schema_version: 1, name: rezero, family: lm, vocab_size: 20, context: 8, width: [8, 12], residual: [plain, rezero],
 embedding: {lookup: {}}, head: {tied: {}},
 decoder: {slots: 2, sharing: [none, all], layers: {plain: {
   mixer: {attention: {n_heads: [1, 2], head_dim: 4}}, ffn: {ffn: {inner: [1x, 2x]}}}}}}
""", "rezero")


def test_every_layer_is_the_identity_at_first() -> None:
    arch = next(arch for arch in map(SPACE.sample, map(random.Random, range(20))) if arch.residual == "rezero")
    model, tokens = Transformer(arch, seed=0).eval(), torch.arange(8)[None]
    embedded = model.get_submodule("embedding")(tokens)
    assert all(torch.equal(each, embedded) for each in model(tokens, outputs=("features",))["features"])
    assert not [name for name, _ in model.named_parameters() if "norm" in name]
    paths = {step.path for step in plan(arch) if step.role in SUBLAYERS}
    assert {f"{path}.alpha" for path in paths} == {name for name, _ in model.named_parameters() if "alpha" in name}


def test_a_supernet_learns_alpha() -> None:
    trainer = supernet_trainer(SPACE)
    for _ in range(5):
        assert not trainer.step().skipped
    learned = [tensor for name, tensor in trainer.model.named_parameters() if "alpha" in name]
    assert len(learned) == 4 and all(tensor.shape == (1,) for tensor in learned) and any(map(torch.any, learned))
