"""GGUF files: what was written, read back, gives the model's outputs; what llama.cpp has not is refused."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from nas import tasks
from nas.core.progress import StageProgress
from nas.core.subnet import write_subnet
from nas.stages.export.ggml_vocabulary import _pre, _scores
from nas.stages.export.request import ExportRequest
from nas.stages.export.run import run
from search_spaces import InputError
from supernet import Transformer
from tests.contracts.test_importers import DECODER, GPT2, imported, pretrained, tokenizer
from tests.nas.runs import nas

gguf = pytest.importorskip("gguf")
pytest.importorskip("transformers")
BYTE_LEVEL = {"type": "ByteLevel"}
MERGE = ("a", "b")


def byte_level(folder: Path, *merges: tuple[str, str]) -> None:
    """A byte-level BPE."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {chr(97 + i): i for i in range(20)} | {"ab": 20}
    made = Tokenizer(models.BPE(words, list(merges)))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.save(str(folder / "tokenizer.json"))


@pytest.mark.parametrize(("cls", "more", "name"), [
    ("LlamaForCausalLM", {"attention_bias": True, "head_dim": 8}, "llama"),
    ("Qwen2ForCausalLM", {"tie_word_embeddings": True}, "qwen2"), ("Qwen3ForCausalLM", {"head_dim": 8}, "qwen3")])
def test_weights_and_settings_are_read_back(cls: str, more: dict, name: str, tmp_path: Path) -> None:
    folder = pretrained(tmp_path / "theirs", cls, {**DECODER, "hidden_size": 32, **more})
    byte_level(folder, MERGE)
    imported(folder, tmp_path / "ours")
    made = run(ExportRequest(str(tmp_path / "ours"), "gguf", out=tmp_path / "f16"), StageProgress())
    assert made.record["architecture"] == name and made.record["largest_difference"] < 1e-2
    fields = gguf.GGUFReader(tmp_path / "f16/model.gguf").fields
    value = {key: field.contents() for key, field in fields.items()}
    assert value["general.architecture"] == name and value[f"{name}.attention.head_count_kv"] == 2
    assert value["tokenizer.ggml.tokens"][20:22] == ["ab", "[PAD21]"] and value["tokenizer.ggml.merges"] == ["a b"]
    small = run(ExportRequest(str(tmp_path / "ours"), "gguf", int8=True, out=tmp_path / "q8"), StageProgress())
    assert small.record["weights"] == "q8_0" and small.record["bytes"] < made.record["bytes"]


def test_it_prints_how_to_run_it_in_llama_cpp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """`python -m tests.alone gguf` runs the lines in llama.cpp itself."""
    byte_level(pretrained(tmp_path / "theirs", "LlamaForCausalLM", {**DECODER, "hidden_size": 32}), MERGE)
    imported(tmp_path / "theirs", tmp_path / "ours")
    monkeypatch.chdir(tmp_path)
    code, out, _ = nas(capsys, "export", "ours", "--format", "gguf", "--out", "made")
    lines = out.strip().splitlines()[-3:]
    assert code == 0 and lines[0].startswith("from llama_cpp import Llama")
    assert "\n".join(lines) in Path("made/README.md").read_text("utf-8")
    calls: list = []

    class Llama:
        def __init__(self, path: str, **_: object) -> None:
            assert gguf.GGUFReader(path).fields

        def __call__(self, text: str, **_: object) -> dict:
            calls.append(text)
            return {"choices": [{"text": "there was"}]}

    monkeypatch.setitem(sys.modules, "llama_cpp", SimpleNamespace(Llama=Llama))
    exec("\n".join(lines), {})
    assert calls == [tasks.get("lm").sample] and capsys.readouterr().out == "there was\n"


def test_other_models_and_tokenizers_are_refused(tmp_path: Path) -> None:
    imported(pretrained(tmp_path / "gpt", "GPT2LMHeadModel", GPT2), tmp_path / "one")
    with pytest.raises(InputError, match="gguf requires an architecture like Llama"):
        run(ExportRequest(str(tmp_path / "one"), "gguf"), StageProgress())
    imported(pretrained(tmp_path / "relu", "LlamaForCausalLM", {**DECODER, "hidden_act": "relu"}), tmp_path / "two")
    with pytest.raises(InputError, match="has the activation relu"):
        run(ExportRequest(str(tmp_path / "two"), "gguf"), StageProgress())
    subnet = imported(pretrained(tmp_path / "llama", "LlamaForCausalLM", DECODER), tmp_path / "three").subnet
    assert tokenizer().get_vocab_size() == subnet.arch.vocab_size
    with pytest.raises(InputError, match="has a tokenizer of the type WordLevel"):
        run(ExportRequest(str(tmp_path / "three"), "gguf"), StageProgress())
    byte_level(pretrained(tmp_path / "bare", "LlamaForCausalLM", DECODER))
    imported(tmp_path / "bare", tmp_path / "four")
    with pytest.raises(InputError, match="has a tokenizer without merges"):
        run(ExportRequest(str(tmp_path / "four"), "gguf"), StageProgress())
    assert _pre(subnet, {"pretokenizers": [{"type": "Digits", "individual_digits": True}, BYTE_LEVEL]}) == "smollm"
    with pytest.raises(InputError, match="splits texts by Metaspace"):
        _pre(subnet, {"type": "Metaspace"})


def test_what_merges_first_has_the_highest_score() -> None:
    assert _scores(["a", "ab", "abc"], [["a", "b"], ["ab", "c"]]) == [0.0, -1.0, -2.0]


def test_layers_that_are_left_out_leave_no_gap(tmp_path: Path) -> None:
    folder = pretrained(tmp_path / "theirs", "LlamaForCausalLM", {**DECODER, "hidden_size": 32, "num_hidden_layers": 4})
    byte_level(folder, MERGE)
    whole = imported(folder, tmp_path / "ours").subnet
    arch = replace(whole.arch, decoder=tuple(whole.arch.decoder[slot] for slot in (0, 3)))
    facts = whole.facts.model_copy(update={"key": arch.key})
    write_subnet(tmp_path / "two", Transformer(arch, seed=1), whole.tokenizer(), facts)
    record = run(ExportRequest(str(tmp_path / "two"), "gguf", out=tmp_path / "f16"), StageProgress()).record
    assert record["largest_difference"] < 1e-2
    assert gguf.GGUFReader(tmp_path / "f16/model.gguf").fields["llama.block_count"].contents() == 2
