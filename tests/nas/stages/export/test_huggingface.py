"""The folder for transformers, where this project is not installed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from nas.core.progress import StageProgress
from nas.core.subnet import Subnet
from nas.stages.export.checking import sample
from nas.stages.export.formats import huggingface
from nas.stages.export.job import ExportJob
from nas.stages.export.request import ExportRequest
from nas.stages.export.run import run
from supernet import Transformer, extract
from tests import shipments
from tests.parity import randomised

pytestmark = pytest.mark.skipif(bool(huggingface.missing()), reason=str(huggingface.missing()))
TEXT = "12+3=4"
ALONE = Path(__file__).with_name("hugging_alone.py")


def used_alone(python: str, folder: Path) -> dict:
    """Exports a model of each family, uses them with another interpreter, and compares. Gives what that printed."""
    autos, models = {}, {}
    for family in shipments.SPACES:
        space = shipments.space(family)
        models[family] = extract(randomised(space), space.sample(random.Random(2))).eval()
        subnet = shipments.ship(models[family], folder / "subnets" / family)
        done = run(ExportRequest(str(subnet.path), "huggingface", out=folder / family), StageProgress())
        autos[family], job = done.record["class"], ExportJob(subnet, 12, False)
        save_file(dict(zip(job.names, sample(job, True, False).cases[1].inputs)),
                  folder / f"{family}.safetensors")
    assert list(autos.values()) == ["AutoModelForCausalLM", "AutoModelForSequenceClassification",
                                    "AutoModelForSeq2SeqLM"]
    done = subprocess.run([python, str(ALONE), ".", TEXT], cwd=folder, capture_output=True, stdin=subprocess.DEVNULL,
                          text=True, timeout=900, env={**os.environ, "HF_HOME": str(folder / "cache")})
    assert done.returncode == 0, done.stderr
    found: dict = json.loads(done.stdout.splitlines()[-1])
    for family in models:
        inputs = load_file(folder / f"{family}.safetensors")
        job = ExportJob(Subnet.open(str(folder / "subnets" / family)), 12, False)
        with torch.no_grad():
            expected = job.module(*(inputs[name] for name in job.names))
        assert torch.allclose(load_file(folder / f"{family}-logits.safetensors")["logits"], expected, atol=1e-5)
    ids = shipments.tokenizer(40).encode(TEXT).ids
    assert [found[family]["ids"] for family in models] == [[2, *ids], [1, *ids], [*ids, 2]]
    assert [found[family]["special"]["bos_token_id"] for family in models] == [2, 1, 1]
    assert found["encoder"]["labels"] == {str(i): f"class {i}" for i in range(3)}
    written = models["lm"].generate(torch.tensor([[2, *ids]]), 12 - len(ids) - 1, stop=2)[0]
    assert found["lm"]["written"] == until_end(written)
    translation = models["seq2seq"].generate(torch.tensor([[*ids, 2]]), 12, begin=1, stop=2)[0]
    assert found["seq2seq"]["written"] == until_end(translation)
    return found


def test_it_is_loaded_saved_and_used_without_this_project(tmp_path: Path) -> None:
    found = used_alone(sys.executable, tmp_path)
    assert all(found[family]["losses"][1] < found[family]["losses"][0] for family in shipments.SPACES)


def test_the_tokenizer_is_loaded_without_a_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AutoTokenizer reads the model's config, which has code, and asks about it unless it is told."""
    import transformers

    subnet = shipments.ship(Transformer(shipments.space("lm").smallest(), seed=0), tmp_path / "subnet")
    (folder := tmp_path / "made").mkdir()
    huggingface.write(ExportJob(subnet, 12, False), folder)
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("it asks"))
    plain = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    auto = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    assert plain(TEXT).input_ids == auto(TEXT).input_ids == [2, *shipments.tokenizer(40).encode(TEXT).ids]


def until_end(ids: torch.Tensor) -> list[int]:
    return [*ids.tolist(), 2][: [*ids.tolist(), 2].index(2)]
