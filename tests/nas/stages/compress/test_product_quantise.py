"""`nas compress --product-quantise`: small tables on disk, an ordinary model in memory."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import nn

from nas.core.subnet import Subnet
from nas.stages.compress.techniques import make_technique
from supernet import Transformer
from supernet.pretrained import QUANTISATION, WEIGHTS
from tests.nas.runs import nas, refused


def tables(model: Transformer) -> dict[str, torch.Tensor]:
    return {name: each.weight for name, each in model.named_modules() if isinstance(each, nn.Embedding)}


def compressed(capsys: Any, *options: str) -> tuple[Subnet, dict[str, Any]]:
    code, out, err = nas(capsys, "compress", "a/big", *options, "--json")
    assert code == 0, err
    found = json.loads(out)
    return Subnet.open(found["folder"]), found


def test_tables_are_codes_on_disk_and_numbers_in_memory(subnet: Subnet, capsys: Any) -> None:
    made, found = compressed(capsys, "--product-quantise", "4", "--subvector", "4")
    assert made.path.name == "big-pq" and type(made.model()) is Transformer
    before, after = subnet.model().state_dict(), made.model().state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed and changed <= {f"{name}.weight" for name in tables(subnet.model())}
    for name in changed:
        assert all(len(block.unique(dim=0)) <= 16 for block in after[name].split(4, dim=1))
        assert after[name].shape == before[name].shape
    assert found["bytes"] < found["original"]["bytes"] and found["metrics"] == made.facts.metrics
    assert made.facts.costs["weight_bytes"] < subnet.facts.costs["weight_bytes"]
    settings = made.facts.made[-1].settings
    assert settings["technique"] == "product-quantise" and 0 < settings["table_error"] < 1
    assert (made.path / QUANTISATION).is_file() and (made.path / WEIGHTS).is_file()


def test_more_bits_lose_less_and_the_same_request_gives_the_same(subnet: Subnet, capsys: Any) -> None:
    errors = [compressed(capsys, "--product-quantise", bits, "--out", f"pq{bits}")[0].facts.made[-1].settings[
        "table_error"] for bits in ("1", "3", "5")]
    assert errors[0] > errors[1] > errors[2]
    again = compressed(capsys, "--product-quantise", "3", "--out", "again")[0]
    assert (again.path / WEIGHTS).read_bytes() == (Subnet.open("pq3").path / WEIGHTS).read_bytes()


def test_the_result_can_be_quantised_further_and_exported(subnet: Subnet, capsys: Any) -> None:
    made, _ = compressed(capsys, "--product-quantise", "4")
    assert nas(capsys, "compress", str(made.path), "--int8")[0] == 0
    assert nas(capsys, "export", str(made.path), "--format", "torch-export")[0] == 0


@pytest.mark.parametrize(("options", "says"), [
    (["--product-quantise", "9"], "--product-quantise: 9 is not allowed"),
    (["--product-quantise", "8"], "--product-quantise: no embedding table has more than 256 rows; use fewer bits"),
    (["--product-quantise", "4", "--subvector", "0"], "--subvector: 0 is not allowed"),
    (["--int8", "--subvector", "4"], "--subvector: belongs to --product-quantise, not to --int8"),
    (["--product-quantise", "4", "--set", "steps=3"], "steps: has no effect without training"),
])
def test_what_cannot_be_is_one_sentence(subnet: Subnet, capsys: Any, options: list[str], says: str) -> None:
    assert says in refused(capsys, "compress", "a/big", *options)


def test_a_sub_vector_divides_the_width() -> None:
    technique = make_technique({"product-quantise": 2, "subvector": 8})
    table = torch.randn(50, 12, generator=torch.Generator().manual_seed(0))
    found = technique._reconstructed(table, 0)  # type: ignore[attr-defined]
    assert found.shape == table.shape and all(len(block.unique(dim=0)) <= 4 for block in found.split(6, dim=1))
