"""`nas measure` on a machine whose times are made up."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import pytest

from hardware_profiles.transports._base import Waiting
from nas.core.stopping import Stopped
from nas.core.subnet import Subnet
from nas.core.timing.session import Bench
from search_spaces import load_space
from supernet import Transformer
from tests import shipments
from tests.nas.runs import nas, refused
from tests.nas.stages.profile.made_up import made_up_machine, profile  # noqa: F401 - a fixture, used by all tests here

RUN = Path("runs", "first")
LOW = "runs/profiles/made-up"


def ship(name: str, seed: int, weights: int = 0) -> Subnet:
    """A subnet of the profiled space, in the folder of a run."""
    RUN.mkdir(parents=True, exist_ok=True)
    (RUN / "config.yaml").touch()
    arch = load_space("lm-tiny").sample(random.Random(seed))
    return shipments.ship(Transformer(arch, seed=weights), RUN / "subnets" / name)


def measured(capsys, *arguments: str) -> list[dict]:
    code, out, _ = nas(capsys, "measure", *arguments, "--json")
    assert code == 0
    return json.loads(out)["measured"]


def test_subnets_of_a_run_are_measured_in_one_session(capsys) -> None:
    assert profile() == 0
    names = {"a": (1, 0), "b": (2, 0), "same but trained": (1, 5)}
    subnets = {name: ship(name, *how) for name, how in names.items()}
    rows = measured(capsys, "first", "--device", "made-up")
    assert [Path(row["subnet"]).name for row in rows] == list(names)
    for row in rows:
        assert abs(row["gap"]) < 0.05 and row["low"] <= row["measured_ms"] <= row["high"] and not row["warning"]
        assert row["slowdown"] == pytest.approx(1.0, abs=0.01)
    for row, subnet in zip(rows, subnets.values()):
        known = Subnet.open(str(subnet.path)).facts.measured["latency:made-up"]
        assert (known.predicted_ms, known.measured_ms) == (row["predicted_ms"], row["measured_ms"])
        assert known.conditions["length"] == 128 and known.conditions["runtime"] == "torch-eager"
        assert "made-up" in (subnet.path / "README.md").read_text("utf-8")
    assert not list(Path(LOW, "work").glob("measure-*")), "what is written down is forgotten"


def test_a_slower_machine_makes_no_gap(capsys, made_up) -> None:  # noqa: F811
    assert profile() == 0
    ship("a", 1)
    made_up["slower"] = 1.5
    (row,) = measured(capsys, "first/a", "first/a", "--device", "made-up", "--device", LOW)
    assert abs(row["gap"]) < 0.05 and row["slowdown"] == pytest.approx(1.5, abs=0.02)
    code, out, _ = nas(capsys, "measure", "first/a", "--device", "made-up")
    assert code == 0 and "machine is 1.500x slower" in out


def test_a_gap_is_a_warning_that_says_what_to_profile(capsys) -> None:
    assert profile() == 0
    ship("a", 1)
    path = Path(LOW, "table.csv")
    rows = list(csv.DictReader(path.open()))
    for row in rows:
        for name in ("ms", "low", "high"):
            row[name] = str(2 * float(row[name]))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    code, out, err = nas(capsys, "measure", "first/a", "--device", "made-up")
    text = " ".join(out.split())
    assert (code, err) == (0, "") and "% less time on made-up than predicted" in text
    assert "run nas profile made-up --space gone --phase prefill --budget 10m" in text
    (row,) = measured(capsys, "first/a", "--device", "made-up")
    assert row["gap"] < -0.3 and row["warning"]


def test_what_has_no_price_is_measured_all_the_same(capsys) -> None:
    assert profile() == 0
    model = Transformer(load_space("lm-small").smallest(), seed=0)
    shipments.ship(model, RUN / "subnets" / "strange")
    (row,) = measured(capsys, str(RUN / "subnets" / "strange"), "--device", "made-up")
    assert row["predicted_ms"] is None and row["gap"] is None and row["measured_ms"] > 0
    assert "not predicted: made-up: no prefill latency for" in row["warning"]


def test_stopping_and_waiting(capsys, monkeypatch) -> None:
    assert profile() == 0
    subnet = ship("a", 1)

    def raising(error):
        def time(*_, **__):
            raise error
        return time

    monkeypatch.setattr(Bench, "time", raising(Waiting("a-phone", "carry a file")))
    code, out, _ = nas(capsys, "measure", "first/a", "--device", "made-up")
    assert code == 0 and "a-phone: carry a file" in out
    monkeypatch.setattr(Bench, "time", raising(Stopped()))
    code, out, _ = nas(capsys, "measure", "first/a", "--device", "made-up")
    assert code == 130 and "rerun the same command to resume" in out
    assert not Subnet.open(str(subnet.path)).facts.measured


def test_a_name_that_is_none_is_told_with_those_there_are(capsys) -> None:
    says = refused(capsys, "measure", "nosuch", "--device", "made-up")
    assert "nosuch: is not the folder of a subnet; nas extract" in says
    Path("runs/other").mkdir(parents=True)
    Path("runs/other/config.yaml").touch()
    says = refused(capsys, "measure", "nosuch", "--device", "made-up")
    assert "nosuch: is not the folder of a subnet; runs here: other; nas extract writes subnets" in says
    ship("a", 1)
    says = refused(capsys, "measure", "firts", "--device", "made-up")
    assert "runs here: first, other; subnets here: first/a; did you mean first?" in says


def test_what_cannot_be_measured(capsys) -> None:
    subnet = ship("a", 1)
    assert "not a measured profile" in refused(capsys, "measure", "first/a", "--device", "made-up")
    assert profile() == 0
    assert nas(capsys, "profile", "raspberry-pi-5-estimated", "--space", "lm-tiny")[0] == 0
    says = refused(capsys, "measure", "first/a", "--device", "raspberry-pi-5-estimated")
    assert "is estimated from a specification; there is no device to measure on" in says
    assert "--phase: 'guess' is not allowed" in refused(capsys, "measure", "first/a", "--device", "made-up",
                                                        "--phase", "guess")
    for family, phase, wrong in (("encoder", "decode", "an encoder does not decode"),
                                 ("lm", "prefill", "has a context of 12, but made-up was profiled at 128 tokens")):
        shipments.ship(Transformer(shipments.space(family).smallest()), Path(family))
        assert wrong in refused(capsys, "measure", family, "--device", "made-up", "--phase", phase)
    assert "first/b" in refused(capsys, "measure", "first/b", "--device", "made-up")
    (subnet.path / "model.safetensors").write_bytes(b"cut short")
    assert "cannot be read" in refused(capsys, "measure", "first/a", "--device", "made-up")
    (RUN / "subnets").rename(RUN / "others")
    assert "has no subnets; run nas extract first" in refused(capsys, "measure", "first", "--device", "made-up")
