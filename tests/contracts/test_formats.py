"""What every format promises, run over every file of the folder and every family."""

from __future__ import annotations

import json
import random
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
from nas.stages.export.run import RECORD, run
from nas.stages.export.shipment import Shipment
from nas.testing.formats import FormatContract
from search_spaces import InputError
from supernet import Transformer, extract
from tests import shipments
from tests.nas.runs import full_disk
from tests.parity import randomised

NAMES = [name for name in formats.names() if name != "gguf"]
"""GGUF files take models like Llama alone: tests/nas/stages/export/test_gguf.py."""
FAMILIES = tuple(shipments.SPACES)
SLOW = ("executorch",)
"""Formats that are tried on one architecture of each family instead of two."""
TEXT = "12+3=4"
WITHOUT_US = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("search_spaces", "supernet", "hardware_profiles", "nas"):
            raise ImportError(name + " is not installed here")
sys.meta_path.insert(0, Nothing())
"""


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Subnet]]:
    """Two random subnets of each family; norms and biases are random too."""
    folder, found = tmp_path_factory.mktemp("shipped"), {}
    for family in FAMILIES:
        space, rng = shipments.space(family), random.Random(f"formats {family}")
        net = randomised(space)
        found[family] = [shipments.ship(extract(net, space.sample(rng)), folder / f"{family}-{i}") for i in range(2)]
    return found


def usable(name: str) -> object:
    found = formats.get(name)
    if found.missing():
        pytest.skip(found.missing())
    return found


def padded(shipment: Shipment, real: int) -> tuple[torch.Tensor, ...]:
    """One sequence of the whole length, padding behind so many tokens where that can be said."""
    tokens = torch.arange(shipment.length)[None] % shipment.arch.vocab_size
    given = {"attention_mask": (tokens < real).long(), "token_type_ids": torch.zeros_like(tokens)}
    return tuple(given.get(name, tokens).contiguous() for name in shipment.names)


@pytest.mark.parametrize("name", NAMES)
def test_holds_what_the_contract_says(name: str) -> None:
    found = formats.get(name)
    assert found.__doc__ and isinstance(found.DYNAMIC, bool) and isinstance(found.INT8, bool)
    assert callable(found.write) and callable(found.load)
    missing = found.missing()
    assert missing is None or "\n" not in missing


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_computes_the_same(name: str, family: str, shipped: dict[str, list[Subnet]]) -> None:
    found = usable(name)
    for subnet in shipped[family][: 1 if name in SLOW else 2]:
        done = run(ExportRequest(str(subnet.path), name), StageProgress())
        assert done.record["largest_difference"] <= done.record["tolerance"] == 1e-4
        assert {RECORD, *done.record["files"]} == {path.name for path in done.folder.iterdir()}
        assert done.record.get("decoder_largest_difference", 0.0) <= 1e-4
        assert (hasattr(found, "call") and family != "encoder") == ("decoder_largest_difference" in done.record)
        assert done.record["bytes"] > 0 and Subnet.open(str(subnet.path)).facts.exports[name] == done.record
    shipment = Shipment(subnet, subnet.arch.context, False)
    call = found.load(shipment, done.folder)
    for real in (shipment.length, shipment.length // 2, 1):
        inputs = padded(shipment, real)
        with torch.no_grad():
            assert torch.allclose(call(inputs), shipment.module(*inputs), atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", [name for name in NAMES if hasattr(formats.get(name), "usage")])
def test_a_folder_needs_nothing_beside_it(name: str, family: str, shipped: dict[str, list[Subnet]]) -> None:
    """What the test before has written: the lines of usage run in a process without this project."""
    usable(name)
    subnet = Subnet.open(str(shipped[family][0].path))
    folder = subnet.path / "exports" / name
    assert {"README.md", "config.json", "tokenizer.json"} <= {path.name for path in folder.iterdir()}
    config = json.loads((folder / "config.json").read_text("utf-8"))
    assert config["eos_token_id"] == 2 and config["bos_token_id"] == (2 if family == "lm" else 1)
    assert family != "encoder" or config["id2label"]["1"] == "class 1"
    usage = subnet.facts.exports[name]["usage"]
    sample = repr(tasks.get(subnet.facts.task).sample)
    assert len(usage) == 3 and sample in usage[2] and "\n".join(usage) in (folder / "README.md").read_text("utf-8")
    script = "\n".join([WITHOUT_US, *usage]).replace(sample, repr(TEXT))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300,
                          cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    if name != "huggingface":
        with pytest.raises(SystemExit, match=r"^the text has \d\d tokens; at most 12 fit$"):
            runpy.run_path(str(folder / "run.py"))["read"](5 * TEXT)
        assert done.stdout.strip("\n").splitlines()[-1:] == expected(subnet).strip("\n").splitlines()[-1:]


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


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_is_told_of_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    usable(name)
    subnet = shipments.ship(Transformer(shipments.space("lm").smallest(), seed=0), tmp_path / "small")
    with full_disk(), pytest.raises(InputError, match=r"out: cannot be written \("):
        run(ExportRequest(str(subnet.path), name, out=tmp_path / "out"), StageProgress())
    assert [path.name for path in tmp_path.iterdir()] == ["small"]


@pytest.mark.parametrize("name", [name for name in NAMES if formats.get(name).INT8])
def test_int8_is_judged_by_the_loss(name: str, tmp_path: Path) -> None:
    usable(name)
    subnet = shipments.ship(Transformer(shipments.space("lm").smallest(), seed=0), tmp_path / "small")
    done = run(ExportRequest(str(subnet.path), name, int8=True, out=tmp_path / "out"), StageProgress())
    assert done.record["plain_loss"] <= done.record["loss"] <= done.record["plain_loss"] + 0.05
    assert done.record["most_loss_increase"] == 0.05 and "drawn" in done.record["compared_on"]


class TestTheInheritedSuite(FormatContract):
    """What a package of its own inherits, on the cheapest format."""

    name = "torch-export"
    n_subnets = 1
