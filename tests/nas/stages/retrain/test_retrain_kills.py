"""Retrainings that are killed and started again end with the bits of one that was not."""

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from nas.core.metrics import read_rows
from supernet import pretrained
from tests.kills import differences, ended, forked, half, lay_trap, running
from tests.nas.subnets import write_extracted

pytestmark = pytest.mark.usefixtures("here")
STEPS = 12
SETTINGS = {"steps": STEPS, "checkpoint_every": 2, "evaluate_every": 4, "dropout": 0.2, "accumulate": 2, "ema": 0.9,
            "patience": 2, "log_every": 1}
WAYS = {"distilled": ["--distill", "logits,features,attention"], "theseus": ["--theseus"]}
PLACES = {"distilled": (None, "half of the tensors", "half of a metrics row", "half of the result"),
          "theseus": (None, "before the rename", "while deleting an old one")}


def command(subnet, out, way):
    return ["retrain", str(subnet.path), "--out", f"runs/a/subnets/{out}", *WAYS[way],
            *(f"--set={key}={value}" for key, value in SETTINGS.items())]


def lay_trap_at_the_end():
    """Die while the weights of the result are written."""
    honest = pretrained.save_tensors

    def save(tensors, path):
        honest(tensors, path)
        content = path.read_bytes()
        path.unlink()
        half(path, content)

    pretrained.save_tensors = save


def kill(argv, place, out, rng):
    """Start a retraining that dies in a place, or at a random step; false where it came to its end before."""
    at = rng.randrange(2, STEPS)
    if place == "half of the result":
        pid = forked(argv, lay_trap_at_the_end)
    elif place is not None:
        pid = forked(argv, lambda: lay_trap(place, at))
    else:
        pid = forked(argv)
        while running(pid) and steps_of(out) < at:
            time.sleep(0.002)
        os.kill(pid, signal.SIGKILL)
    return ended(pid) == -signal.SIGKILL


def work_of(out):
    for path in Path("runs/a/retraining").glob("*/settings.json"):
        if json.loads(path.read_text("utf-8"))["out"] == f"subnets/{out}":
            return path.parent
    return None


def steps_of(out):
    work = work_of(out)
    return max((row.step for row in read_rows(work / "metrics.csv")), default=0) if work else 0


def learned(out):
    """Everything that has to be equal: weights, metrics, and the curves but for their speed."""
    folder = Path("runs/a/subnets", out)
    rows = sorted(row.text for row in read_rows(work_of(out) / "metrics.csv") if "tokens_per_s" not in row.text)
    made = json.loads((folder / "metrics.json").read_text("utf-8"))["made"][-1]["metrics"]
    return {"weights": (folder / "model.safetensors").read_bytes(), "rows": "".join(rows).encode(),
            "metrics": json.dumps(made).encode()}


@pytest.mark.parametrize("way", WAYS)
def test_a_killed_retraining_ends_as_one_that_was_not(finished, way):
    finished()
    subnet, rng = write_extracted("a"), random.Random(way)
    assert ended(forked(command(subnet, "straight", way))) == 0, Path("output.txt").read_text("utf-8")
    for number, place in enumerate(PLACES[way]):
        out = f"killed-{number}"
        assert kill(command(subnet, out, way), place, out, rng), place
        assert not Path("runs/a/subnets", out).exists()
        if place is not None and rng.random() < 0.5:
            kill(command(subnet, out, way), None, out, rng)
        assert ended(forked(command(subnet, out, way))) == 0, Path("output.txt").read_text("utf-8")
        assert differences(learned("straight"), learned(out)) == [], place
        assert not list(Path("runs/a/subnets").glob(".*")) and not (work_of(out) / "checkpoints").exists()
