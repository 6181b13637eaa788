"""Decoders of models whose layers remember different numbers of tokens."""

from pathlib import Path

import pytest
import torch

from nas.core.progress import StageProgress
from nas.stages.export.request import ExportRequest
from nas.stages.export.run import run
from search_spaces.files.loader import space_from_text
from supernet import Transformer
from supernet.stepping import DecoderStep, state_slots
from tests import shipments

SPACE = space_from_text("""
{schema_version: 1, name: windows, family: lm, vocab_size: 23, context: 16, width: 16,
 embedding: {lookup: {}}, head: {linear: {}},
 decoder: {slots: 3, layers: {only: {ffn: {ffn: {inner: 1x}}, mixer: {
   local_attention: {n_heads: 2, head_dim: 4, reach: 2},
   strided_attention: {n_heads: 2, head_dim: 4, stride: 3},
   attention: {n_heads: 2, head_dim: 4}}}}}}
""", "windows")
MIXERS = ("local_attention", "strided_attention", "attention")


def model() -> Transformer:
    genes = {f"decoder.{i}.only.mixer.kind": kind for i, kind in enumerate(MIXERS)}
    return Transformer(SPACE.decode(genes), seed=0).eval()


def test_axes_grow_to_what_each_layer_keeps() -> None:
    arch = model().arch
    assert [slot.most(16) for slot in state_slots(arch)[2:]] == [3, 3, 16, 16, 16, 16]
    assert [slot.least_past for slot in state_slots(arch)] == [2, 2, 0, 0, 0, 0, 0, 0]


@torch.no_grad()
def test_a_cache_of_fixed_size_keeps_the_nearest_tokens() -> None:
    plain = model()
    step, tokens = DecoderStep(plain, window=15), torch.randint(0, 23, (1, 16))
    past, whole = step.example(1, 1, 15, 0)[3:], plain(tokens)
    for i in range(16):
        mask = torch.cat([torch.zeros(1, 15 - i), torch.ones(1, i + 1)], dim=1).long()
        logits, *past = step(tokens[:, i : i + 1], mask, torch.tensor([[i]]), *past)
        assert torch.allclose(logits[:, 0], whole[:, i], atol=1e-5)


@pytest.mark.parametrize("name", ["onnx", "torch-export"])
def test_the_exported_decoder_computes_the_same(name: str, tmp_path: Path) -> None:
    subnet = shipments.ship(model(), tmp_path / "windows")
    done = run(ExportRequest(str(subnet.path), name), StageProgress())
    assert done.record["decoder_largest_difference"] <= done.record["tolerance"]
