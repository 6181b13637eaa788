"""The tutorial on shrinking MiniLM: its commands run in order, on a random model of the same class."""

from __future__ import annotations

import random
import re
import shlex
from pathlib import Path

import pytest

from nas.cli import main
from nas.core.subnet import Subnet
from nas.costs import count
from tests.contracts.test_importers import SMALL, pretrained
from tests.test_docs import shell_lines

pytest.importorskip("transformers")
PAGE = "docs/shrink_minilm.md"
LEFT_OUT = ("profile", "latency", "export")
"""They time this machine, or write formats that have tests of their own."""
BRIEF = ["--set", "batch_size=4", "--set", "evaluate_limit=4", "--set", "device=cpu"]


def arguments(line: str, model: str) -> list[str]:
    """The arguments of a command of the page, for a small model and without a device."""
    line = line.replace("./all-MiniLM-L6-v2", "theirs").replace("--context 64", "--context 16")
    line = line.replace("--device cpu-onnxruntime", "").replace("steps=1500", "steps=2").replace("--trials 120",
                                                                                                 "--trials 4")
    if "latency:" in line:
        most = int(0.9 * count(Subnet.open(model).arch, 16).macs)
        line = re.sub(r"latency:[\w-]+=6ms", f"macs={most}", line)
    if "KEY" in line:
        line = line.replace("KEY-retrained", next(Path("runs/small/subnets").glob("*-retrained")).name)
    words = shlex.split(line)[1:]
    return [*words, *(BRIEF if words[0] in ("train", "retrain") else []), *["--no-check"][:words[0] == "train"]]


def test_the_commands_of_the_tutorial_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pretrained(tmp_path / "theirs", "BertModel", {**SMALL, "num_hidden_layers": 3})
    rng = random.Random(0)
    rows = (f"{' '.join(f'w{rng.randrange(9)}' for _ in range(5))}\t{i % 2}" for i in range(60))
    Path("reviews.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    lines = [line for line in shell_lines(PAGE) if line.startswith("nas ") and line.split()[1] not in LEFT_OUT]
    assert len(lines) >= 9
    for line in lines:
        assert main(arguments(line, "runs/reviews/subnets/minilm-retrained")) == 0, line
    assert Path("comparison/compare.svg").exists()
