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
from nas.stages.export.request import ExportRequest
from nas.stages.export.run import run
from nas.stages.export.shipment import Shipment
from supernet import extract
from tests import shipments
from tests.parity import randomised

pytestmark = pytest.mark.skipif(bool(huggingface.missing()), reason=str(huggingface.missing()))
TEXT = "12+3=4"
ALONE = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("search_spaces", "supernet", "hardware_profiles", "nas"):
            raise ImportError(name + " is not installed here")
sys.meta_path.insert(0, Nothing())
import json
import torch
import transformers
from safetensors.torch import load_file, save_file
torch.set_num_threads(1)
found = {}
for family, auto in json.loads(sys.argv[1]).items():
    inputs = load_file(family + ".safetensors")
    model = getattr(transformers, auto).from_pretrained(family, trust_remote_code=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(family, trust_remote_code=True)
    with torch.no_grad():
        first = model(**inputs)[0]
        model.save_pretrained(family + "-again")
        tokenizer.save_pretrained(family + "-again")
        again = transformers.AutoModel.from_pretrained(family + "-again", trust_remote_code=True)
        assert torch.equal(again(**inputs)[0], first)
        save_file({"logits": first}, family + "-logits.safetensors")
        given = tokenizer(sys.argv[2], return_tensors="pt")
        found[family] = {"ids": given["input_ids"][0].tolist(), "labels": model.config.id2label}
        if family == "lm":
            found["written"] = model.generate(**given, max_new_tokens=20, do_sample=False)[0].tolist()
print(json.dumps(found))
"""


def test_it_is_loaded_saved_and_used_without_this_project(tmp_path: Path) -> None:
    autos, models = {}, {}
    for family in shipments.SPACES:
        space = shipments.space(family)
        models[family] = extract(randomised(space), space.sample(random.Random(2))).eval()
        subnet = shipments.ship(models[family], tmp_path / "subnets" / family)
        done = run(ExportRequest(str(subnet.path), "huggingface", out=tmp_path / family), StageProgress())
        autos[family], shipment = done.record["class"], Shipment(subnet, 12, False)
        save_file(dict(zip(shipment.names, sample(shipment, True, False).cases[1].inputs)),
                  tmp_path / f"{family}.safetensors")
    assert list(autos.values()) == ["AutoModelForCausalLM", "AutoModelForSequenceClassification",
                                    "AutoModelForSeq2SeqLM"]
    done = subprocess.run([sys.executable, "-c", ALONE, json.dumps(autos), TEXT], cwd=tmp_path, capture_output=True,
                          text=True, timeout=300, env={**os.environ, "HF_HOME": str(tmp_path / "cache")})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for family in models:
        inputs = load_file(tmp_path / f"{family}.safetensors")
        shipment = Shipment(Subnet.open(str(tmp_path / "subnets" / family)), 12, False)
        with torch.no_grad():
            expected = shipment.module(*(inputs[name] for name in shipment.names))
        assert torch.allclose(load_file(tmp_path / f"{family}-logits.safetensors")["logits"], expected, atol=1e-5)
    ids = shipments.tokenizer(40).encode(TEXT).ids
    assert [found[family]["ids"] for family in models] == [ids, [1, *ids], [*ids, 2]]
    assert found["encoder"]["labels"] == {str(i): f"class {i}" for i in range(3)}
    written = models["lm"].generate(torch.tensor([ids]), 12 - len(ids), stop=2)[0].tolist()
    assert found["written"][: len(ids) + len(written)] == [*ids, *written] and len(found["written"]) <= len(ids) + 20
