"""`nas export`: what is written where, and what is refused without leaving anything behind."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from nas.core.subnet import Subnet, SubnetFacts, write_subnet
from nas.stages.export.checking import sample
from nas.stages.export.formats import torch_export
from nas.stages.export.job import ExportJob
from nas.stages.export.run import RECORD
from search_spaces import load_architecture
from supernet import Transformer
from supernet.blocks import ffn
from supernet.cache import _module
from supernet.compression.quantised import DYNAMIC, dequantised, quantise
from tests import shipments
from tests.nas.runs import nas, refused

FORMAT = ("--format", "torch-export")
FILES = ("README.md", "config.json", "decode.pt2", RECORD, "model.pt2", "run.py", "tokenizer.json")


@pytest.fixture
def subnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Subnet:
    monkeypatch.chdir(tmp_path)
    return shipments.ship(Transformer(shipments.space("lm").smallest(), seed=0), Path("sub"))


def files(folder: Path) -> Iterator[str]:
    return (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.name != ".lock")


def test_it_is_written_recorded_and_replaced(subnet, capsys):
    code, out, err = nas(capsys, "export", "sub", *FORMAT, "--json")
    assert (code, err) == (0, "")
    said = json.loads(out)
    folder = subnet.path / "exports" / "torch-export"
    assert said["folder"] == str(folder) and said["length"] == "1 to 12"
    record = Subnet.open("sub").facts.exports["torch-export"]
    assert json.loads((folder / RECORD).read_text()) == {"schema_version": 1, **record}
    assert record["bytes"] == sum(path.stat().st_size for path in folder.iterdir() if path.name != RECORD)
    assert record["compared_on"] == "random tokens (seed 0), because its run does not exist"
    assert "torch-export" in (subnet.path / "README.md").read_text("utf-8")
    (folder / "left over").touch()
    (folder.parent / ".torch-export.12345678").mkdir()
    code, out, err = nas(capsys, "export", "sub", *FORMAT)
    assert (code, err) == (0, "") and "largest difference" in out and "\n".join(record["usage"]) in out
    assert list(files(folder.parent)) == ["torch-export", *(f"torch-export/{name}" for name in FILES)]


def test_it_is_compared_on_the_data_of_its_run(subnets, capsys):
    for task in ("lm", "translation"):
        code, out, err = nas(capsys, "export", str(subnets[task]), *FORMAT, "--json")
        assert (code, err) == (0, "")
        assert json.loads(out)["compared_on"].endswith(" validation examples")


def test_another_folder(subnet, capsys):
    Path("mine").mkdir()
    assert "mine: exists and is not an export" in refused(capsys, "export", "sub", *FORMAT, "--out", "mine")
    Path("file").write_text("", "utf-8")
    assert "file is not writable; name another folder with --out" in refused(
        capsys, "export", "sub", *FORMAT, "--out", "file/there")
    assert nas(capsys, "export", "sub", *FORMAT, "--out", "deep/there")[0] == 0
    assert Subnet.open("sub").facts.exports["torch-export"]["folder"] == "deep/there"
    assert not (subnet.path / "exports").exists()


@pytest.mark.parametrize(("arguments", "says"), [
    (("--format", "guess"), "--format: 'guess' is unknown; allowed: executorch, gguf, huggingface, onnx, torch-export"),
    ((*FORMAT, "--int8"), "--int8: is not supported by torch-export; supported by: executorch, gguf, onnx"),
    ((*FORMAT, "--length", "4"), "which takes any length; formats with a fixed length: executorch"),
    (("--format", "executorch", "--length", "13"), "--length: 13 is not allowed; allowed: 1 to the context, 12"),
    ((*FORMAT, "--max-loss-increase", "1"), "--max-loss-increase: is allowed with --int8 only"),
    (("--format", "huggingface", "--no-decoder"), "--no-decoder: has no effect on huggingface, which has no decoder of "
                                                  "its own; formats that have one: executorch, onnx, torch-export"),
])
def test_what_a_format_does_not_do(subnet, capsys, arguments, says):
    before = list(files(subnet.path))
    assert says in refused(capsys, "export", "sub", *arguments)
    assert list(files(subnet.path)) == before


@pytest.mark.parametrize(("name", "package", "extra"), [
    ("onnx", "onnxruntime", "onnx"), ("executorch", "executorch", "mobile"),
    ("huggingface", "transformers", "huggingface"), ("gguf", "gguf", "gguf"),
])
def test_a_package_that_is_missing(subnet, capsys, monkeypatch, name, package, extra):
    honest = importlib.util.find_spec
    hidden = lambda wanted, *rest: None if wanted == package else honest(wanted, *rest)  # noqa: E731
    monkeypatch.setattr("importlib.util.find_spec", hidden)
    monkeypatch.setattr("nas.stages.export.formats.huggingface.find_spec", hidden)
    monkeypatch.setattr("nas.stages.export.formats.gguf.find_spec", hidden)
    says = refused(capsys, "export", "sub", "--format", name)
    assert f"{package} is not installed; run `pip install 'paretoformer[{extra}]'`" in says
    assert not (subnet.path / "exports").exists()


def test_a_folder_that_was_cut_short(subnet, capsys):
    weights = subnet.path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-9])
    assert refused(capsys, "export", "sub", *FORMAT).startswith("nas: sub/model.safetensors: cannot be read")
    weights.unlink()
    assert refused(capsys, "export", "sub", *FORMAT).startswith("nas: sub/model.safetensors: cannot be read")
    assert not (subnet.path / "exports").exists()


def test_what_differs_is_not_written(subnet, capsys, monkeypatch):
    assert nas(capsys, "export", "sub", *FORMAT)[0] == 0
    before, honest = {path: path.read_bytes() for path in subnet.path.rglob("*.*") if path.is_file()}, torch_export.load

    for wrong, says in ((2e-3, "2.0e-03"), (float("nan"), "inf")):
        def load(job, folder, wrong=wrong):
            run = honest(job, folder)
            return lambda inputs: run(inputs) * (1 + wrong)

        monkeypatch.setattr(torch_export, "load", load)
        message = refused(capsys, "export", "sub", *FORMAT)
        assert f"differs from the plain model by {says} of the largest logit; allowed: 0.0001" in message
        assert {path: path.read_bytes() for path in subnet.path.rglob("*.*") if path.is_file()} == before


def test_an_older_one_comes_back_where_a_process_was_killed_between_the_names(subnet, capsys, monkeypatch):
    assert nas(capsys, "export", "sub", *FORMAT)[0] == 0
    folder = subnet.path / "exports" / "torch-export"
    folder.rename(folder.with_name(".torch-export.old"))
    monkeypatch.setattr(torch_export, "load", lambda job, folder: lambda inputs: torch.zeros(1))
    assert "differs" in refused(capsys, "export", "sub", *FORMAT)
    assert list(files(folder.parent)) == ["torch-export", *(f"torch-export/{name}" for name in FILES)]


def test_lengths_up_to_the_context_and_padding_are_always_compared(subnets):
    for task, folder in subnets.items():
        job = ExportJob(Subnet.open(str(folder)), 6, False)
        for dynamic in (True, False):
            named = [dict(zip(job.names, case.inputs)) for case in sample(job, dynamic, False).cases]
            lengths = {each["input_ids"].shape[1] for each in named}
            assert {1, job.arch.context} <= lengths if dynamic else lengths == {6}
            if task != "lm":
                assert all(not each["attention_mask"][0].all() for each in named if each["input_ids"].shape[1] > 1)


def test_a_model_of_double_precision_is_shipped_in_single(subnet, capsys):
    write_subnet(Path("double"), subnet.model().double(), subnet.tokenizer(), subnet.facts)
    assert Subnet.open("double").model().get_parameter("embedding.table.weight").dtype == torch.float64
    assert nas(capsys, "export", "double", *FORMAT)[0] == 0
    run = torch.export.load("double/exports/torch-export/model.pt2").module()
    assert run(torch.arange(12)[None]).dtype == torch.float32


def test_int8_that_is_too_bad_is_not_written(subnet, capsys, monkeypatch):
    monkeypatch.setattr(torch_export, "INT8", True)
    monkeypatch.setattr(torch_export, "load", lambda job, folder: lambda inputs: torch.randn(*inputs[0].shape, 40))
    says = refused(capsys, "export", "sub", *FORMAT, "--int8")
    assert "allowed increase: 0.05" in says and not (subnet.path / "exports").exists()
    assert nas(capsys, "export", "sub", *FORMAT, "--int8", "--max-loss-increase", "9")[0] == 0
    record = Subnet.open("sub").facts.exports["torch-export-int8"]
    assert record["loss"] > record["plain_loss"] and record["most_loss_increase"] == 9


def test_a_block_that_cannot_be_taken_is_named(subnet, capsys, monkeypatch):
    for name in ffn.ACTIVATIONS:
        monkeypatch.setitem(ffn.ACTIVATIONS, name, lambda x: x if x.sum() > 0 else -x)
    says = refused(capsys, "export", "sub", *FORMAT)
    assert says.count("\n") == 1 and "torch.export cannot export ffn(width=8" in says
    assert not (subnet.path / "exports").exists()


def test_a_block_that_cannot_decode_is_named_and_a_decoder_left_out_only_on_request(subnet, capsys, monkeypatch):
    kind, block = subnet.arch.decoder[0].mixer.kind, type(subnet.model().get_submodule("decoder.0.mixer.block"))
    monkeypatch.delattr(next(cls for cls in block.__mro__ if "state_shapes" in vars(cls)), "state_shapes")
    _module.cache_clear()
    says = refused(capsys, "export", "sub", *FORMAT)
    assert f"sub: the kind {kind} cannot decode token by token" in says
    assert says.rstrip().endswith("omit the decoder with --no-decoder") and says.count("\n") == 1
    assert not (subnet.path / "exports").exists()
    assert nas(capsys, "export", "sub", *FORMAT, "--no-decoder")[0] == 0
    _module.cache_clear()
    assert list(files(subnet.path / "exports" / "torch-export")) == [name for name in FILES if "decode" not in name]


def test_an_encoder_has_no_decoder_to_leave_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shipments.ship(Transformer(shipments.space("encoder").smallest(), seed=0), Path("sub"))
    assert "--no-decoder: has no effect on encoders" in refused(capsys, "export", "sub", *FORMAT, "--no-decoder")


def test_a_compressed_subnet_is_exported_with_its_values(subnet, capsys):
    small = quantise(subnet.model(), DYNAMIC)
    arch = load_architecture(subnet.path)
    write_subnet(Path("small"), small, subnet.tokenizer(), SubnetFacts(key=arch.key, task="lm", run="gone"))
    assert nas(capsys, "export", "small", *FORMAT)[0] == 0
    run = torch.export.load("small/exports/torch-export/model.pt2").module()
    tokens = torch.arange(12)[None]
    with torch.no_grad():
        assert torch.allclose(run(tokens), dequantised(small)(tokens), atol=1e-5)
        assert not torch.allclose(run(tokens), subnet.model()(tokens), atol=1e-5)
