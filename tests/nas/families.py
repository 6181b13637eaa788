"""A run of each task, small enough for tests: trained, searched, and a subnet of it extracted."""

from __future__ import annotations

from pathlib import Path

from nas import cli
from nas.core import evaluation as train
from nas.core.run_dir import RunDir
from tests.nas import runs
from tests.nas.stages.search.made_up import write_profile
from tests.nas.stages.search.test_families import CLASSIFIER, DATA, SETTINGS, TRANSLATOR

TASKS = ("lm", "classification", "translation")
SPACES = {"lm": runs.SPACE, "classification": CLASSIFIER, "translation": TRANSLATOR}


def search_all() -> None:
    """Train a run of each task and search it for a device of its own."""
    runs.write_inputs(Path())
    for task in TASKS:
        Path(f"{task}.yaml").write_text(SPACES[task], "utf-8")
        _run("train", "--space", f"{task}.yaml", "--task", task, "--data", f"train={_data(task)}", "--data",
             "vocab_size=60", "--run", task, *(f"--set={setting}" for setting in SETTINGS))
        write_profile(train.prepare(RunDir.open(task)).space, f"on-{task}")
        _run("search", task, "--device", f"on-{task}", "--trials", "8", "--limit", "6")


def extract_all() -> None:
    """Extract the knee of each run."""
    for task in TASKS:
        _run("extract", task, "--knee")


def only(task: str) -> Path:
    """The folder of a run's only subnet."""
    (found,) = (path for path in Path("runs", task, "subnets").iterdir() if path.name != ".lock")
    return found


def _data(task: str) -> str:
    if task == "lm":
        return "text.txt"
    head, rows = DATA[task]
    Path(f"{task}.tsv").write_text(head + "".join(f"{one}\t{other}\n" for one, other in rows), "utf-8")
    return f"{task}.tsv"


def _run(*argv: str) -> None:
    assert cli.main(list(argv)) == 0, argv
