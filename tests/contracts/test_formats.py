"""The suite of formats over every file of the folder, and what the shipped formats promise besides."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nas import tasks
from nas.core.progress import StageProgress
from nas.core.subnet import Subnet
from nas.stages.export import formats
from nas.stages.export.request import ExportRequest
from nas.stages.export.run import run
from nas.testing import suites
from nas.testing.formats import FAMILIES, FormatContract
from search_spaces import InputError
from supernet import Transformer
from tests import shipments
from tests.nas.runs import full_disk

NAMES = [name for name in formats.names() if name != "gguf"]
"""GGUF files take models like Llama alone: tests/nas/stages/export/test_gguf.py."""
TEXT = "12+3=4"
WITHOUT_US = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("search_spaces", "supernet", "hardware_profiles", "nas"):
            raise ImportError(name + " is not installed here")
sys.meta_path.insert(0, Nothing())
"""


def expected(subnet: Subnet) -> str:
    """What the plain model makes of the text."""
    model, tokenizer = subnet.model(), subnet.tokenizer()
    ids = tokenizer.encode(TEXT, add_special_tokens=False).ids
    if subnet.arch.family == "encoder":
        with torch.no_grad():
            return subnet.facts.labels[int(model(torch.tensor([[1, *ids]])).argmax())]
    if subnet.arch.family == "lm":
        return tokenizer.decode(model.generate(torch.tensor([[2, *ids]]), 12 - len(ids), stop=2)[0].tolist())
    return tokenizer.decode(model.generate(torch.tensor([[*ids, 2]]), 12, begin=1, stop=2)[0].tolist()).strip()


class ShippedFormatContract(FormatContract):
    """What the formats of this repository promise besides."""

    @pytest.mark.parametrize("family", FAMILIES)
    def test_a_folder_is_self_contained(self, family: str, folder: Path) -> None:
        """The lines of usage run in a process without this project."""
        if not hasattr(self.usable(), "usage"):
            pytest.skip("for formats with lines of usage")
        name, subnet = self.name, self.exported(family, folder)[0]
        written = subnet.path / "exports" / name
        assert {"README.md", "config.json", "tokenizer.json"} <= {path.name for path in written.iterdir()}
        config = json.loads((written / "config.json").read_text("utf-8"))
        assert config["eos_token_id"] == 2 and config["bos_token_id"] == (2 if family == "lm" else 1)
        assert family != "encoder" or config["id2label"]["1"] == "class 1"
        usage = subnet.facts.exports[name]["usage"]
        sample = repr(tasks.get(subnet.facts.task).sample)
        assert len(usage) == 3 and sample in usage[2] and "\n".join(usage) in (written / "README.md").read_text("utf-8")
        script = "\n".join([WITHOUT_US, *usage]).replace(sample, repr(TEXT))
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300,
                              cwd=written.parent)
        assert done.returncode == 0, done.stderr
        if name != "huggingface":
            with pytest.raises(SystemExit, match=r"^the text has \d\d tokens; at most 12 are allowed$"):
                runpy.run_path(str(written / "run.py"))["read"](5 * TEXT)
            assert done.stdout.strip("\n").splitlines()[-1:] == expected(subnet).strip("\n").splitlines()[-1:]

    def test_a_full_disk_is_reported_and_leaves_nothing(self, tmp_path: Path) -> None:
        self.usable()
        subnet = shipments.ship(Transformer(shipments.space("lm").smallest(), seed=0), tmp_path / "small")
        with full_disk(), pytest.raises(InputError, match=r"out: cannot be written \("):
            run(ExportRequest(str(subnet.path), self.name, out=tmp_path / "out"), StageProgress())
        assert [path.name for path in tmp_path.iterdir()] == ["small"]


globals().update(suites(ShippedFormatContract, *NAMES, n_subnets=1))  # make roundtrip exports twenty of each family
