"""The demo's config runs end to end and says what it found; here with few steps and made-up times."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from hardware_profiles.runtimes import torch_eager
from nas.core.subnet import Subnet
from supernet import Transformer
from tests.nas.runs import nas
from tests.nas.stages.profile.made_up import made_up_seconds

DEMO = Path(__file__).parents[3] / "examples" / "demo.yaml"


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch_eager, "load", lambda module, inputs, options: partial(float, made_up_seconds(module,
                                                                                                            inputs)))
    monkeypatch.setattr("nas.stages.profile.profiling.measurable", lambda _: False)
    config = yaml.safe_load(DEMO.read_text("utf-8"))
    config["training"] |= {"steps": 3, "batch_size": 2, "evaluate_limit": 4}
    config["devices"][0]["budget"] = "1m"
    config["search"] |= {"trials": 8, "limit": 4}
    config["retrain"]["training"]["steps"] = 2
    path = tmp_path / "demo.yaml"
    path.write_text(yaml.safe_dump(config), "utf-8")
    return path


def test_the_demo_compares_what_it_picked_with_plain_models(demo: Path, capsys: Any) -> None:
    code, out, err = nas(capsys, "run", str(demo), "--json")
    assert code == 0, err
    found = json.loads(out)
    assert 1 <= len(found["shipped"]) <= 2 and len(found["plain"]) == 2 and Path(found["report"]).is_file()
    for path in (*found["shipped"], *found["plain"]):
        subnet = Subnet.open(path)
        trained = subnet.facts.made[-1]
        assert trained.settings["init"] == ("scratch" if path in found["plain"] else "inherit")
        assert "latency:cpu" in subnet.facts.measured
        assert Transformer.from_pretrained(path).arch == subnet.arch
    space = Subnet.open(found["plain"][0]).run().space()
    assert [Subnet.open(path).arch.key for path in found["plain"]] == [space.smallest().key, space.largest().key]
    code, out, _ = nas(capsys, "run", str(demo))
    assert code == 0 and out.count("skipped, already done") == len(found["stages"])
    assert out.count(" from scratch ") >= 2 and "report: " in out
    assert " ".join(out.split()).count(" times its latency:cpu") == 2 * len(found["shipped"])
