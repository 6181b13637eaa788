"""Padding with zeros: a stock class holds models with layers of different sizes, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nas.core.progress import StageProgress
from nas.core.subnet import HistoryStep, SubnetFacts, write_subnet
from nas.stages.export.padding import padded
from nas.stages.export.request import ExportRequest
from nas.stages.export.run import run
from nas.testing import small_subnets
from search_spaces import Architecture, InputError
from search_spaces.block import BlockConfig
from supernet import Transformer
from tests.contracts.test_importers import CASES, DECODER, GPT2, SMALL, tokenizer
from tests.nas.stages.space_from.test_space_from import architecture

transformers = pytest.importorskip("transformers")
UNEVEN = {"attention": {"n_heads": 2, "n_kv_heads": 2}, "grouped_attention": {"queries": 1}, "ffn": {"inner": 8}}
"""What the first layer has less."""


def uneven(arch: Architecture) -> Architecture:
    """The first layer of every stack with fewer heads and channels."""
    def smaller(block: BlockConfig) -> BlockConfig:
        return BlockConfig.of(block.kind, {**dict(block.dims), **UNEVEN.get(block.kind, {})})

    return replace(arch, **{stack: (replace(layers[0], mixer=smaller(layers[0].mixer), ffn=smaller(layers[0].ffn)),
                                    *layers[1:]) for stack, layers in arch.stacks.items()})


def exported(tmp_path: Path, arch: Architecture, model_type: str, **how: object):
    made = (HistoryStep(stage="import", settings={"model_type": model_type}),)
    facts = SubnetFacts(key=arch.key, task="", run="", made=made, specials={"pad": 0})
    subnet = write_subnet(tmp_path / "ours", Transformer(arch, seed=0), tokenizer(), facts)
    return run(ExportRequest(str(subnet.path), "huggingface", **how), StageProgress())


@pytest.mark.parametrize(("cls", "config", "model_type"), [
    ("BertForMaskedLM", SMALL, "bert"), ("LlamaForCausalLM", DECODER, "llama"),
    ("LlamaForCausalLM", {**DECODER, "num_key_value_heads": 4}, "llama"),
    ("GPT2LMHeadModel", GPT2, "gpt2")])
def test_a_stock_class_holds_padded_layers(cls: str, config: dict, model_type: str, tmp_path: Path) -> None:
    whole = architecture(tmp_path, cls, config)
    arch = uneven(whole)
    found = exported(tmp_path, arch, model_type, pad=True)
    assert found.record["class"] == cls and found.record["largest_difference"] < 1e-5
    assert found.record["padded_params"].startswith(f"{sum(p.numel() for p in Transformer(arch).parameters()):,} -> ")
    assert "%" in found.record["padded_macs"]
    theirs = getattr(transformers, cls).from_pretrained(found.folder).eval()
    ids = torch.tensor([[5, 9, 7, 3]])
    assert torch.allclose(theirs(ids).logits, Transformer.from_pretrained(tmp_path / "ours")(ids), atol=1e-5)


def test_padding_is_never_silent(tmp_path: Path) -> None:
    whole = architecture(tmp_path, "BertForMaskedLM", SMALL)
    plain = exported(tmp_path, uneven(whole), "bert")
    assert "padded_params" not in plain.record and list(plain.folder.glob("modeling_*.py"))
    with pytest.raises(InputError, match="pad.*has no effect on x: a stock class"):
        padded(Transformer(whole), "x")
    with pytest.raises(InputError, match="no stock class of transformers can hold x"):
        padded(Transformer(small_subnets.space("encoder").largest()), "x")
    own_biases = Transformer(uneven(architecture(tmp_path / "t5", *CASES["t5"][0])), seed=0)  # in every layer
    with pytest.raises(InputError, match="no stock class of transformers can hold x"):
        padded(own_biases, "x", "t5")
    with pytest.raises(InputError, match="pad.*has no effect on onnx.*formats that need it: huggingface, gguf"):
        ExportRequest("x", "onnx", pad=True)
