"""`nas init`: a commented config of a pipeline, from the answers to a few questions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hardware_profiles.profile import shipped_devices
from nas import tasks
from nas.pipeline.config import read_pipeline
from nas.run_dir import RunDir, write_text
from search_spaces import InputError, load_space, shipped_spaces

Ask = Callable[[str, str, list[str]], str]
"""A question, the answer by default, and what is allowed (anything where that is empty)."""

SPACES = {"lm": "lm-tiny", "classification": "encoder-small", "translation": "seq2seq-small"}
"""Where to begin with a task."""

TEMPLATE = """\
# A whole search for efficient Transformers: nas run {file}
# nas run {file} --dry-run says what it will do and how long that may take; called again, it goes on.
schema_version: 1
run: {run}                    # everything goes to runs/{run}
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
    """Ask, write the file and read it again. Raises InputError where it exists or an answer is wrong."""
    if path.exists():
        raise InputError(str(path), "exists; name another file")
    run = ask("What shall the run be called?", "first", [])
    RunDir(run)  # says what a name may be
    task = ask("What is the task?", "lm", sorted(tasks.names()))
    fitting = [name for name in shipped_spaces() if load_space(name).family == tasks.get(task).family]
    space = ask("Which search space?", SPACES.get(task, fitting[0]), fitting)
    data = ask("A file to train on, or nothing for the embedded data?", "", [])
    device = ask("Which device shall it be fast on?", "cpu", list(shipped_devices()))
    small = space == "lm-tiny"
    answers = {"run": run, "task": task, "space": space, "device": device, "file": path.name,
               "data": f"{{train: {_quoted(data)}}}" if data else "{}", "steps": 400 if small else 2000,
               "trials": 60 if small else 200, "retrain_steps": 200 if small else 1000}
    write_text(path, TEMPLATE.format(**answers))
    read_pipeline(path)
    return path


def _quoted(text: str) -> str:
    """A text as YAML has it, whatever is in it."""
    return "'" + text.replace("'", "''") + "'"
