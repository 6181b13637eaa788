"""Latencies that were not measured throughout are marked wherever they appear."""

import csv
import json
import random
import re
from pathlib import Path

import numpy as np
import pytest

from hardware_profiles import LatencyModel
from nas.core import evaluation as train
from nas.core.commands import command_line
from nas.core.fronts import read_front
from nas.core.marks import unmeasured_notes
from nas.core.measures import Measure
from nas.core.subnet import Subnet
from tests.nas.runs import nas
from tests.nas.stages.search.made_up import write_profile

SEARCH = ("search", "a", "--device", "half", "--trials", "8", "--limit", "4", "--sampler", "random")
COLUMN = "unmeasured_share:latency:half"


@pytest.fixture
def half(searchable):
    """The run `a`, and the device `half`, whose feed-forwards are interpolated."""
    write_profile(train.prepare(searchable).space, "half", interpolated=("ffn",))
    return searchable


def test_a_share_is_what_the_parts_that_were_not_measured_take(half):
    space, model = train.prepare(half).space, LatencyModel.load("half")
    archs = [space.sample(random.Random(seed)) for seed in range(20)]
    wanted = [sum(part.ms for part in model.breakdown(arch) if part.source != "measured") / model.predict(arch)
              for arch in archs]
    assert np.allclose(model.unmeasured_shares(archs), wanted) and 0 < min(wanted) < max(wanted) < 1
    assert LatencyModel.load("one").unmeasured_shares(archs).tolist() == [0.0] * 20
    assert model.unmeasured_shares([]).tolist() == []


def rows():
    with Path("runs/a/trials.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_search_marks_what_rests_on_interpolated_prices(half, capsys):
    code, out, err = nas(capsys, *SEARCH)
    assert code == 0
    front = read_front(half)
    assert front and all(0 < entry.unmeasured["latency:half"] < 1 for entry in front)
    assert out.count("~") >= len(front) + 3 and "~ partly interpolated or estimated" in out
    n = len(front)
    assert re.search(rf"latency:half of {n} of {n} architectures on the front is based on interpolated unit latencies "
                     r"\(\d+ to \d+ % of the latency\); to measure more units, run nas profile half --space runs/a "
                     r"--budget 10m", err)
    assert all(0 < float(row[COLUMN]) < 1 for row in rows())
    assert all("1 layer" in line or "2 layers" in line for line in out.splitlines() if re.match("[0-9a-f]{12} ", line))
    assert nas(capsys, "pareto", "a")[1].count("~") == n + 1
    data = json.loads(nas(capsys, "pareto", "a", "--json")[1])
    assert all(0 < each["unmeasured_share"]["latency:half"] < 1 for each in data["fronts"]["half"])
    assert "~" in nas(capsys, "watch", "a", "--once")[1]


def test_a_measured_front_is_not_marked(searchable, capsys):
    code, out, err = nas(capsys, *("one" if word == "half" else word for word in SEARCH))
    assert (code, err) == (0, "") and "~" not in out
    assert {row[COLUMN.replace("half", "one")] for row in rows()} == {"0.0"}


def test_a_search_of_an_older_version_opens_and_is_marked_by_todays_profile(half, capsys):
    assert nas(capsys, *SEARCH)[0] == 0
    journal = Path("runs/a/study.journal")
    text = re.sub(r', ?"unmeasured_share": ?\{[^}]*\}', "", journal.read_text("utf-8"))
    assert "unmeasured" not in text
    journal.write_text(text, "utf-8")
    front = Path("runs/a/pareto.json")
    data = json.loads(front.read_text("utf-8"))
    for each in data["architectures"]:
        del each["unmeasured_share"]
    front.write_text(json.dumps(data), "utf-8")
    assert [entry.unmeasured for entry in read_front(half)] == [{}] * len(data["architectures"])
    assert nas(capsys, "pareto", "a")[1].count("~") == len(data["architectures"]) + 1
    assert nas(capsys, "report", "a")[0] == 0
    assert nas(capsys, *SEARCH[:2], "--more", "1")[0] == 0
    assert [bool(row[COLUMN]) for row in rows()] == [False] * 8 + [True]


def test_subnets_and_their_cards_are_marked(half, capsys):
    assert nas(capsys, *SEARCH)[0] == 0
    code, out, err = nas(capsys, "extract", "a", "--top", "1")
    assert code == 0 and "~" in out
    assert "of 1 of 1 architectures extracted is based on interpolated unit latencies" in err
    subnet = Subnet.open(str(next(Path("runs/a/subnets").glob("*/metrics.json")).parent))
    share = subnet.facts.unmeasured_share["latency:half"]
    assert 0 < share < 1
    card = (subnet.path / "README.md").read_text("utf-8")
    assert "| of it interpolated or estimated |" in card and f"| {100 * share:.1f} % |" in card
    assert "~" in nas(capsys, "latency", "half", f"a/{subnet.arch.key[:6]}")[1]
    facts = json.loads((subnet.path / "metrics.json").read_text("utf-8"))
    del facts["unmeasured_share"]
    (subnet.path / "metrics.json").write_text(json.dumps(facts), "utf-8")
    assert Subnet.open(str(subnet.path)).facts.unmeasured_share == {}  # as an older version wrote it


def test_notes_say_how_much_and_what_to_run(searchable):
    shares = [{"latency:one": 0.004}, {"latency:one": 0.5}, {}]
    measures = [Measure("latency", "one"), Measure("params")]
    assert [command_line(note) for note in unmeasured_notes(shares, measures, "runs/a", "here")] == [
        "latency:one of 2 of 3 architectures here is based on interpolated unit latencies (<1 to 50 % of the latency); "
        "to measure more units, run nas profile one --space runs/a --budget 10m"]
    gone = list(unmeasured_notes([{"latency:gone:decode": 1.0}], [Measure("latency", "gone", "decode")], "s", "here"))
    assert len(gone) == 1 and "there is no profile of gone here" in gone[0]
