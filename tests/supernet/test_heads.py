"""Left-out heads: the smaller model says what the larger one says with these heads silenced."""

from __future__ import annotations

import random

import pytest
import torch

from search_spaces import Architecture, SearchSpace
from search_spaces.files.loader import space_from_text
from search_spaces.units import plan
from supernet import Transformer
from supernet.compression.heads import attentions, gated, importance, least_important, without
from tests.parity import batch as inputs_of
from tests.supernet.toys import LM, Rows, plain_trainer

GROUPED = space_from_text("""
{schema_version: 1, name: grouped, family: lm, vocab_size: 20, context: 12, width: 16, positions: [rotary, learned],
 bias: [true, false], embedding: {lookup: {}}, head: {tied: {}},
 decoder: {slots: 4, sharing: [none, attention, all/2], layers: {plain: {
   mixer: {attention: {n_heads: [1, 2, 4, 6], head_dim: [4, 6], n_kv_heads: [1, 2, n_heads]},
           lsra: {ratio: 0.5, n_heads: 2, kernel: 3}},
   ffn: {ffn: {inner: 1x}}}}}}
""", "grouped")
BOTH = space_from_text("""
{schema_version: 1, name: both, family: seq2seq, vocab_size: 20, context: 12, width: 8,
 embedding: {lookup: {}}, head: {tied: {}},
 encoder: {slots: 2, sharing: [none, all], layers: {plain: {
   mixer: {attention: {n_heads: [2, 4], head_dim: 4}}, ffn: {ffn: {inner: 1x}}}}},
 decoder: {slots: 2, sharing: [none, all], layers: {plain: {mixer: {attention: {n_heads: 4, head_dim: 2}},
   cross: {cross_attention: {n_heads: [2, 4], head_dim: 4, n_kv_heads: [2, n_heads]}}, ffn: {ffn: {inner: 1x}}}}}}
""", "both")


def archs(space: SearchSpace, n: int = 12) -> list[Architecture]:
    rng = random.Random(0)
    return [space.sample(rng) for _ in range(n)]


def randomised(arch: Architecture) -> Transformer:
    model = Transformer(arch, seed=0).eval()
    with torch.no_grad():
        for each in model.parameters():
            each.add_(torch.randn(each.shape, generator=torch.Generator().manual_seed(1)) * 0.1)
    return model


@pytest.mark.parametrize("space", [GROUPED, BOTH], ids=lambda space: space.name)
def test_the_outputs_are_those_of_the_silenced_model(space: SearchSpace) -> None:
    removed = 0
    for i, arch in enumerate(archs(space)):
        model = randomised(arch)
        scores = {path: torch.rand(each.n_heads) for path, (_, each) in attentions(model).items()}
        gone = least_important(model, scores, 1 + i % 5)
        smaller = without(model, gone)
        gates = {path: torch.ones(each.n_heads) for path, (_, each) in attentions(model).items()}
        for path, heads in gone.items():
            gates[path][heads] = 0
        inputs, keywords = inputs_of(arch, i)
        with torch.no_grad(), gated(model, gates):
            expected = model(*inputs, **keywords)
        assert torch.allclose(smaller(*inputs, **keywords), expected, atol=1e-5)
        removed += bool(gone)
        if gone:
            assert smaller.arch.key != arch.key
            assert Architecture.from_json(smaller.arch.to_json()) == smaller.arch
            assert sum(each.numel() for each in smaller.parameters()) < sum(each.numel() for each in model.parameters())
        assert torch.equal(randomised(arch)(*inputs, **keywords), model(*inputs, **keywords)), "the model is left alone"
    assert removed > 5


def test_every_layer_keeps_a_head_and_grouped_ones_go_together() -> None:
    for arch in archs(GROUPED):
        model = randomised(arch)
        known = attentions(model)
        total = sum(each.n_heads for _, each in known.values())
        scores = importance(model, [Rows(length=12).batch(0, 2, 0)])
        gone = least_important(model, scores, total)
        for path, (_, each) in known.items():
            left = each.n_heads - len(gone.get(path, []))
            assert left == (each.n_heads // each.n_kv_heads if each.n_kv_heads > 1 else 1)
        kinds = {step.path: step.unit.block.kind for step in plan(arch)}
        assert all(kinds[path] == "attention" for path in known), "the heads of lsra follow from its ratio"
        assert sum(map(len, least_important(model, scores, 3).values())) <= 3


def test_importance_is_the_mean_absolute_slope() -> None:
    """Compared with differences of losses, sequence by sequence."""
    trainer = plain_trainer(max(archs(GROUPED), key=lambda arch: len(attentions(Transformer(arch)))), steps=5)
    for _ in range(5):
        trainer.step()
    model = trainer.model.eval().double()
    assert isinstance(model, Transformer)
    batch = Rows(length=12).batch(0, 3, 0)
    scores, known = importance(model, [batch]), attentions(model)

    def losses(path: str, head: int, value: float) -> torch.Tensor:
        gate = torch.ones(known[path][1].n_heads, dtype=torch.float64)
        gate[head] = value
        with torch.no_grad(), gated(model, {path: gate}):
            logits = model(batch.tokens)
        return torch.nn.functional.cross_entropy(logits.transpose(1, 2), batch.labels, reduction="none").sum(1)

    for path, score in scores.items():
        slopes = torch.tensor([float(((losses(path, head, 1.001) - losses(path, head, 0.999)) / 0.002).abs().sum())
                               for head in range(len(score))])
        assert torch.allclose(score, slopes / slopes.norm(), atol=1e-3)


def test_a_head_that_says_nothing_is_the_first_to_go() -> None:
    arch = next(arch for arch in archs(LM, 50) if any(
        step.unit.block.kind == "attention" and step.unit.block["n_heads"] == 2 for step in plan(arch)))
    model = randomised(arch)
    path, (name, each) = next((path, found) for path, found in attentions(model).items() if found[1].n_heads == 2)
    with torch.no_grad():
        model.get_submodule(f"{name}.{each.output}").weight[:, each.head_dim :] = 0
    scores = importance(model, [Rows().batch(0, 4, 0)])
    assert scores[path][1] == 0 and name.startswith(path)
    assert least_important(model, scores, 1) == {path: [1]}
