"""`nas init`: a commented config of a pipeline, from the answers to a few questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from hardware_profiles.profile import load_profile, shipped_devices
from nas import tasks
from nas.pipeline.reading import parse_pipeline
from nas.profile_command import why_not
from nas.run_dir import folder_of_run, write_text
from nas.tasks.base import Task
from search_spaces import InputError, load_space, shipped_spaces


@dataclass(frozen=True)
class Question:
    """What is asked.

    Args:
        default: the answer of who gives none.
        allowed: all answers there are; none: any that passes the check.
        check: raises InputError for an answer that cannot be.
    """

    text: str
    default: str
    allowed: tuple[str, ...] = ()
    check: Callable[[str], object] = str


Ask = Callable[[Question], str]
"""Gives an answer that passes the question's check, or raises InputError."""

SPACES = {"lm": "lm-tiny", "classification": "encoder-small", "translation": "seq2seq-small"}
"""Where to begin with a task."""

TEMPLATE = """\
# A whole search for efficient Transformers: nas run {file}
# nas run {file} --dry-run says what it will do and how long that may take; called again, it goes on.
schema_version: 1
run: {run}                    # everything goes to {folder}
space: {space}                # nas spaces lists them; or a YAML file of yours
task: {task}
data: {data}                       # the embedded data, or your files, such as {{train: my.txt.gz}}

training:                     # nas settings lists all of them
  steps: {steps}
  batch_size: 8
  lr: 0.002
  dropout: 0

devices:                      # nas devices lists them; each is profiled, searched for and measured on
  - device: {device}
    budget: 1m                # for timing; more is more exact
    check: 0                  # so many unseen models are measured to check the predictions

search:
  trials: {trials}
  limit: 50                   # validation examples that each architecture is judged by
  max: []                     # limits, such as [latency:{device}=12ms, params=5M]

pick:                         # what goes on: max: [...], knee: true, top: 3 or all_pareto: true; or a list of such
  knee: true

retrain:                      # null: ship what the supernet has
  init: inherit               # or scratch
  teacher: supernet           # or none, or another subnet's folder
  training:
    steps: {retrain_steps}

plain: false                  # true: the smallest and the largest are trained from scratch, to compare with
export: []                    # formats to ship, such as [{{format: onnx}}, {{format: onnx, int8: true}}]
measure: true                 # time what was picked on every device
"""


def write_config(path: Path, ask: Ask) -> Path:
    """Ask, and write the file. Raises InputError where it exists or an answer is wrong: nothing is written then."""
    if path.exists():
        raise InputError(str(path), "exists; name another file")
    run = ask(Question("What shall the run be called?", "first", check=folder_of_run))
    task = tasks.get(ask(Question("What is the task?", "lm", tuple(sorted(tasks.names())))))
    fitting = tuple(name for name in shipped_spaces() if load_space(name).family == task.family)
    space = ask(Question("Which search space?", SPACES.get(task.name, fitting[0]), fitting))
    data = ask(Question("A file to train on, or nothing for the embedded data?", "",
                        check=lambda answer: _check_file(answer, task)))
    device = ask(Question("Which device shall it be fast on?", "cpu", shipped_devices(), _check_device))
    small = space == "lm-tiny"
    answers = {"run": _written(run), "folder": folder_of_run(run), "task": task.name, "space": space, "device": device,
               "file": path.name, "data": f"{{train: {_quoted(data)}}}" if data else "{}",
               "steps": 400 if small else 2000, "trials": 60 if small else 200, "retrain_steps": 200 if small else 1000}
    text = TEMPLATE.format(**answers)
    parse_pipeline(text, str(path), anew=True)
    write_text(path, text)
    return path


def _check_file(answer: str, task: Task) -> None:
    if answer:
        task.check_data({"train": answer})


def _check_device(name: str) -> None:
    why = why_not(load_profile(name))
    if why:
        raise InputError("device", f"{name} cannot be used here: {why}")


def _written(text: str) -> str:
    """A text as YAML has it: in quotes where it would be read as something else."""
    try:
        return text if yaml.safe_load(f"run: {text} # a comment") == {"run": text} else _quoted(text)
    except yaml.YAMLError:
        return _quoted(text)


def _quoted(text: str) -> str:
    """A text in quotes, whatever is in it."""
    return "'" + text.replace("'", "''") + "'"
