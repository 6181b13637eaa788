"""The suite of importers over every family, with odd settings, and what the shipped ones promise besides."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from nas.core.progress import StageProgress
from nas.core.subnet import Subnet, write_subnet
from nas.importers import Checkpoint, ImportWishes, convert, registry, stock_models
from nas.stages.export.request import ExportRequest
from nas.stages.export.run import run as export
from nas.stages.import_model.request import ImportRequest
from nas.testing import suites
from nas.testing.importers import WORDS, ImporterContract, imported, pretrained, tokenizer
from search_spaces import InputError, load_space
from search_spaces.block import BlockConfig
from supernet import Transformer

transformers = pytest.importorskip("transformers")

SMALL = {"vocab_size": WORDS, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 24, "max_position_embeddings": 34}
DECODER = {**SMALL, "num_key_value_heads": 2}
GPT2 = {"vocab_size": WORDS, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 34}
DISTIL = {"vocab_size": WORDS, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": 34}
T5 = {"vocab_size": WORDS, "d_model": 16, "d_kv": 6, "d_ff": 24, "num_layers": 2, "num_heads": 2,
      "decoder_start_token_id": 0}
SEQ2SEQ = {"vocab_size": WORDS, "d_model": 16, "encoder_layers": 2, "decoder_layers": 1, "encoder_ffn_dim": 16,
           "decoder_ffn_dim": 24, "encoder_attention_heads": 2, "decoder_attention_heads": 4,
           "max_position_embeddings": 34, "pad_token_id": 1, "decoder_start_token_id": 2}
CASES = {
    "llama": [
        ("LlamaForCausalLM", {**DECODER, "attention_bias": True,
                              "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}),
        ("LlamaForCausalLM", {**DECODER, "mlp_bias": True, "num_key_value_heads": 1, "tie_word_embeddings": True}),
        ("MistralForCausalLM", {**DECODER, "head_dim": 6, "sliding_window": 34, "rms_norm_eps": 1e-3}),
        ("Qwen2ForCausalLM", {**DECODER, "hidden_act": "gelu_new"}),
        ("Qwen3ForCausalLM", {**DECODER, "head_dim": 8, "attention_bias": True, "tie_word_embeddings": True}),
    ],
    "gpt2": [
        ("GPT2LMHeadModel", GPT2),
        ("GPT2LMHeadModel", {**GPT2, "n_inner": 20, "layer_norm_epsilon": 1e-3}),
        ("GPT2LMHeadModel", {**GPT2, "activation_function": "relu", "tie_word_embeddings": False}),
        ("GPT2LMHeadModel", {**GPT2, "n_head": 1, "n_layer": 3}),
        ("GPT2Model", {**GPT2, "n_head": 2}),
    ],
    "bert": [
        ("BertModel", {**SMALL, "hidden_act": "relu"}),
        ("BertForMaskedLM", {**SMALL, "layer_norm_eps": 1e-5, "hidden_act": "gelu_new"}),
        ("BertForSequenceClassification", {**SMALL, "num_labels": 3, "type_vocab_size": 3}),
        ("RobertaForMaskedLM", {**SMALL, "type_vocab_size": 1, "layer_norm_eps": 1e-3}),
        ("RobertaForSequenceClassification", {**SMALL, "num_labels": 3}),
        ("XLMRobertaModel", SMALL),
        ("ElectraForMaskedLM", {**SMALL, "embedding_size": 8}),
        ("ElectraForSequenceClassification", {**SMALL, "embedding_size": 16}),
        ("DistilBertForMaskedLM", {**DISTIL, "sinusoidal_pos_embds": True}),
        ("DistilBertForSequenceClassification", {**DISTIL, "activation": "relu", "num_labels": 4}),
    ],
    "albert": [
        ("AlbertModel", {**SMALL, "embedding_size": 8}),
        ("AlbertForMaskedLM", {**SMALL, "embedding_size": 8, "num_hidden_layers": 4, "num_hidden_groups": 2}),
        ("AlbertForMaskedLM", {**SMALL, "embedding_size": 4, "inner_group_num": 2, "layer_norm_eps": 1e-5}),
        ("AlbertForSequenceClassification", {**SMALL, "embedding_size": 8, "num_labels": 3}),
        ("AlbertForSequenceClassification", {**SMALL, "embedding_size": 8, "hidden_act": "gelu"}),
    ],
    "t5": [
        ("T5ForConditionalGeneration", T5),
        ("T5ForConditionalGeneration", {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
        ("T5ForConditionalGeneration", {**T5, "num_decoder_layers": 1, "relative_attention_num_buckets": 8,
                                        "relative_attention_max_distance": 12}),
        ("T5ForConditionalGeneration", {**T5, "feed_forward_proj": "gated-silu", "layer_norm_epsilon": 1e-3}),
        ("MT5ForConditionalGeneration", T5),
    ],
    "bart": [
        ("BartForConditionalGeneration", SEQ2SEQ),
        ("BartForConditionalGeneration", {**SEQ2SEQ, "scale_embedding": True, "activation_function": "relu"}),
        ("MarianMTModel", {**SEQ2SEQ, "scale_embedding": True, "activation_function": "swish"}),
        ("MarianMTModel", {**SEQ2SEQ, "share_encoder_decoder_embeddings": False}),
        ("MarianMTModel", {**SEQ2SEQ, "decoder_layers": 2, "encoder_attention_heads": 4}),
    ],
}


class _Bart(ImporterContract):
    def pretrained(self, folder: Path, case: int) -> Path:
        """Marian has a bias that others do not have, except where it is zero."""
        super().pretrained(folder, case)
        if self.cases[case][0] == "MarianMTModel" and case % 2 == 0:
            tensors = load_file(folder / "model.safetensors")
            tensors["final_logits_bias"].normal_()
            save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        return folder


for _name in registry():
    globals().update(suites(_Bart if _name == "bart" else ImporterContract, _name, cases=CASES.get(_name, ())))


def test_every_importer_has_five_cases() -> None:
    assert {name for name in registry() if len(CASES.get(name, ())) >= 5} == set(registry())


def test_generate_of_the_stock_class_uses_its_cache(tmp_path: Path) -> None:
    imported(pretrained(tmp_path / "theirs", "LlamaForCausalLM", DECODER), tmp_path / "ours")
    export(ExportRequest(str(tmp_path / "ours"), "huggingface", out=tmp_path / "again"), StageProgress())
    made = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "again").eval()
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    ids = torch.tensor([reader("5 6 7")["input_ids"]])
    assert ids.tolist() == [[2, 5, 6, 7, 3]]
    found = made.generate(ids, max_new_tokens=6, do_sample=False, eos_token_id=None)[0, 5:].tolist()
    assert found == Subnet.open(str(tmp_path / "ours")).model().generate(ids, 6, temperature=0)[0].tolist()


def test_a_model_without_some_layers_is_a_stock_class(tmp_path: Path) -> None:
    """Slots say where weights lay in a supernet; transformers counts layers."""
    config = {**DECODER, "num_hidden_layers": 4, "attention_bias": True}
    whole = imported(pretrained(tmp_path / "theirs", "LlamaForCausalLM", config), tmp_path / "ours").subnet
    arch = replace(whole.arch, decoder=(whole.arch.decoder[1], whole.arch.decoder[3]))
    small = Transformer(arch, seed=0).eval()
    small.load_state_dict({name: whole.model().state_dict()[name] for name in small.state_dict()})
    write_subnet(tmp_path / "small", small, whole.tokenizer(), whole.facts.model_copy(update={"key": arch.key}))
    request = ExportRequest(str(tmp_path / "small"), "huggingface", out=tmp_path / "again")
    assert export(request, StageProgress()).record["class"] == "LlamaForCausalLM"
    assert not list((tmp_path / "again").glob("*.py"))
    ids = torch.arange(5, 29).reshape(2, 12)
    with torch.no_grad():
        theirs = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "again").eval()(ids).logits
        assert (theirs - small(ids)).abs().max() < 1e-4


def test_layers_of_different_width_need_the_modelling_file(tmp_path: Path) -> None:
    """No stock class has them, so none is written."""
    arch = imported(pretrained(tmp_path / "theirs", "LlamaForCausalLM", DECODER), tmp_path / "ours").subnet.arch
    assert next(stock_models(arch))[2].cls == "LlamaForCausalLM"
    ffn = BlockConfig.of("ffn", {**dict(arch.decoder[0].ffn.dims), "inner": 8})
    mixed = replace(arch, decoder=(replace(arch.decoder[0], ffn=ffn), *arch.decoder[1:]))
    assert not list(stock_models(mixed))
    assert not list(stock_models(load_space("lm-mixed").largest()))


def test_a_head_can_be_chosen(tmp_path: Path) -> None:
    folder = pretrained(tmp_path / "theirs", "BertForMaskedLM", SMALL)
    result = imported(folder, tmp_path / "ours", head="features")
    assert result.cls == "BertModel" and result.subnet.arch.head.kind == "features"
    assert any(name.startswith("cls.predictions") for name in result.left_out)
    bare = pretrained(tmp_path / "bare", "BertModel", SMALL)
    assert imported(bare, tmp_path / "pooled", head="pooler").subnet.arch.head["pooler"] is True


def test_half_precision_and_shards(tmp_path: Path) -> None:
    folder = pretrained(tmp_path / "theirs", "LlamaForCausalLM", {**DECODER, "dtype": "float32"}, shards=True)
    assert len(list(folder.glob("*.safetensors"))) > 1
    assert imported(folder, tmp_path / "ours").difference <= 1e-5
    for path in folder.glob("*.safetensors"):
        save_file({name: tensor.half() for name, tensor in load_file(path).items()}, path, {"format": "pt"})
    result = imported(folder, tmp_path / "half")
    assert result.difference <= 1e-4
    assert all(tensor.dtype == torch.float32 for tensor in result.subnet.model().state_dict().values())


def test_a_shorter_context_makes_a_sliding_window_harmless(tmp_path: Path) -> None:
    folder = pretrained(tmp_path / "theirs", "MistralForCausalLM", {**DECODER, "sliding_window": 16})
    with pytest.raises(InputError, match="sliding_window: 16 is shorter than the context of 34"):
        imported(folder, tmp_path / "ours")
    assert imported(folder, tmp_path / "ours", context=16).subnet.arch.context == 16
    with pytest.raises(InputError, match=r"^context: 99 is not allowed; allowed: 1 to 34, the max_position_embeddings"):
        imported(folder, tmp_path / "longer", context=99)


def changed(folder: Path, **fields: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


@pytest.mark.parametrize(("fields", "says"), [
    ({"model_type": "lama"}, "model_type: 'lama' is not supported; supported: albert, bart, bert.*did you mean"),
    ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0}},
     "rope_parameters: .*is not supported"),
    ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_scaling: .*is not supported"),
    ({"hidden_act": "quick_gelu"}, "hidden_act: 'quick_gelu' is not supported; supported: gelu"),
    ({"architectures": ["LlamaForTokenClassification"]}, "architectures: LlamaForTokenClassification is not supported"),
    ({"quantization_config": {"bits": 4}}, "quantization_config: quantised weights are not supported"),
    ({"hidden_size": -1}, "hidden_size: -1 is not allowed"),
    ({"intermediate_size": 20}, r"mlp.gate_proj.weight: has the shape \(24, 16\), but config.json requires"),
    ({"vocab_size": 10**12}, "config.json: vocab_size: 1000000000000 is not allowed; allowed: .* to 1,000,000,000"),
    ({"num_hidden_layers": 10**9}, "config.json: a stack of 1,000,000,000 layers is not supported; .* up to 512"),
    ({"vocab_size": 10**9, "intermediate_size": 10**9},
     r"config.json: the tensors of this config need [\d,.]+ GiB; .* the numbers in config.json may be damaged"),
    ({"num_hidden_layers": 3}, "model.layers.2.input_layernorm.weight: is missing"),
    ({"num_hidden_layers": 1}, "model.layers.1.input_layernorm.weight: is not a tensor of LlamaForCausalLM"),
])
def test_what_is_not_supported_is_refused_by_name(fields: dict, says: str, tmp_path: Path) -> None:
    folder = pretrained(tmp_path / "theirs", "LlamaForCausalLM", DECODER)
    changed(folder, **fields)
    with pytest.raises(InputError) as caught:
        convert(Checkpoint.open(folder), ImportWishes())
    assert re.search(says, str(caught.value)), str(caught.value)


def test_the_classes_of_a_classifier_are_numbered_and_heads_divide_the_width(tmp_path: Path) -> None:
    folder = pretrained(tmp_path / "theirs", "BertForSequenceClassification", {**SMALL, "num_labels": 2})
    changed(folder, num_attention_heads=3)
    with pytest.raises(InputError, match="config.json: head_dim: "):
        imported(folder, tmp_path / "ours")
    changed(folder, id2label={"0": "good", "x": "bad"})
    with pytest.raises(InputError, match=r"id2label: the classes \['0', 'x'\] are not allowed; allowed: 0 to 1"):
        imported(folder, tmp_path / "ours")


@pytest.mark.parametrize("pad", [-1, 10**6])
def test_a_padding_token_that_the_model_does_not_have_is_none(pad: int, tmp_path: Path) -> None:
    """Old configs have -1 where there is none."""
    folder = pretrained(tmp_path / "theirs", "T5ForConditionalGeneration", {**T5, "pad_token_id": 0})
    (folder / "generation_config.json").unlink(missing_ok=True)
    result = imported(folder, tmp_path / "whole")
    changed(folder, pad_token_id=pad)
    assert imported(folder, tmp_path / "ours").subnet.facts.specials == {
        name: i for name, i in result.subnet.facts.specials.items() if name != "pad"}


def test_folders_that_lack_something(tmp_path: Path) -> None:
    folder = pretrained(tmp_path / "theirs", "LlamaForCausalLM", DECODER)

    def refused(says: str) -> None:
        with pytest.raises(InputError, match=says):
            imported(folder, tmp_path / "ours")
        assert not (tmp_path / "ours").exists()

    tokenizer(WORDS + 1).save(str(folder / "tokenizer.json"))
    refused("has token ids up to 50, but the model has a vocabulary of 50")
    (folder / "tokenizer.json").unlink()
    refused("contains no tokenizer.json; write it with: python -c")
    tokenizer().save(str(folder / "tokenizer.json"))
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:100])
    refused("is damaged")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused("is a pickle, which can run code when it is read, .*LlamaForCausalLM as M; M.from_pretrained")
    (folder / "pytorch_model.bin").unlink()
    refused("contains no weights: neither model.safetensors nor")
    (folder / "config.json").unlink()
    refused("contains no config.json")
    with pytest.raises(InputError, match="is (not|neither) a folder"):
        imported(tmp_path / "no where", tmp_path / "ours")
    with pytest.raises(InputError, match="'lma' is not allowed; allowed: lm"):
        ImportRequest("x", head="lma")
