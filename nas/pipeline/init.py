"""`nas init`: writes a commented pipeline config from the user's files and a few answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from hardware_profiles.device import load_profile
from nas import tasks
from nas.core.availability import why_not
from nas.core.commands import flag, shell_command
from nas.core.progress import StageProgress
from nas.core.run_dir import folder_of_run, write_text
from nas.pipeline.answers import Answer, data_of, fitting_vocab
from nas.pipeline.reading import parse_pipeline
from nas.stages.devices.request import DevicesRequest
from nas.stages.devices.run import run as list_devices
from nas.tasks.base import Task
from nas.tasks.guessing import Guess
from search_spaces import InputError, load_space, shipped_spaces
from search_spaces.errors import Command, Option, Setting

TEMPLATE = """\
# A whole search for efficient Transformers: {command}
# {dry_run} prints the plan and estimated times. Rerun the command to resume.
schema_version: 1
run: {run:<24} # everything goes to {folder}
space: {space:<22} # {spaces} lists them; or your own YAML file
task: {task}
{data}

training:                     # {settings} lists all of them
  steps: {steps}
  batch_size: 8
  lr: {lr}
  dropout: 0

devices:                      # {devices} lists them; each is profiled, and is an objective of the search
  - device: {device}
    budget: {budget:<17} # for the whole profile, including compilation; a longer one is more precise
    check: 0                  # number of unseen models to measure, to check predictions: 4 or more

search:
  trials: {trials}
  limit: 50                   # validation examples per evaluation
  max: []                     # limits, such as [{limit}=12ms, params=5M]

pick:                         # what to extract: max: [...], knee: true, top: 3 or all_pareto: true; or a list of these
  knee: true

retrain:                      # null: no retraining, keep the inherited weights
  init: inherit               # or scratch; model: see {retrain}
  teacher: supernet           # or none, or another subnet's folder
  training:
    steps: {retrain_steps}

plain: false                  # true: also train the smallest and largest architecture from scratch
export: []                    # export formats, such as [{{format: onnx}}, {{format: onnx, int8: true}}]
measure: true                 # measure the extracted models on every device
"""
AS_TRAIN = f"{shell_command(Command('train'))} {flag('data')}"
NO_DATA = f"data: {{}}                       # the bundled sample data, or your files: " \
          f"{shell_command(Command('init', data='FILE'))}"


@dataclass(frozen=True)
class Question:
    """A question of `nas init`.

    Args:
        key: the option that answers it.
        default: the default answer.
        allowed: the offered answers; others that pass the check are accepted, too.
        check: raises InputError for an invalid answer.
        note: information to print before the question.
        guessed: the default is guessed from the data; the answer is an option of the data.
    """

    key: str
    text: str
    default: str
    allowed: tuple[str, ...] = ()
    check: Callable[[str], object] = str
    note: str = ""
    guessed: bool = False

    @property
    def option(self) -> str:
        """The option of the command line that answers the question."""
        return str(Setting("data", self.key, "NAME") if self.guessed else Option(self.key))


Ask = Callable[[Question], str]
"""Gives an answer that passes the question's check, or raises InputError."""


@dataclass(frozen=True)
class Given:
    """Input from the command line: files and options of the data, and answers by the key of a question."""

    paths: tuple[str, ...] = ()
    data: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, str] = field(default_factory=dict)


def write_config(path: Path, ask: Ask, given: Given = Given(), say: Callable[[Guess], None] = lambda _: None) -> Path:
    """Ask, and write the file. Raises InputError if it exists or an answer is wrong: nothing is written then.

    Args:
        say: shows how the user's files are understood.
    """
    if path.exists():
        raise InputError(str(path), "exists; name another file")
    if not path.parent.is_dir():
        raise InputError(str(path.parent), "no such folder")

    def answer(question: Question) -> str:
        if question.key in given.answers:
            question.check(given.answers[question.key])
            return given.answers[question.key]
        return ask(question)

    run = answer(Question("run", "Name of the run?", "first", check=folder_of_run))
    asking: Answer = lambda key, text, default, allowed: answer(Question(  # noqa: E731
        key, text, default, allowed, lambda value: _one_of(key, value, allowed), guessed=key != "task"))
    detected = Guess("", "", {})
    if given.paths or given.data:
        detected = data_of(given.paths, given.data, given.answers.get("task"), asking, say)
    task = tasks.get(detected.task or answer(Question("task", "Task?", "lm", tuple(sorted(tasks.names())), tasks.get)))
    space = answer(_space_question(task))
    if not (given.paths or given.data):
        file = answer(Question("data", "File or folder to train on (empty: the bundled sample data)?", "",
                               check=_is_file))
        detected = data_of((file,), {}, task.name, asking, say) if file else detected
    data = fitting_vocab(task, detected.data, load_space(space))
    device = answer(_device_question())
    text = _text(path, {"run": run, "task": task.name, "space": space, "device": device}, data)
    parse_pipeline(text, str(path), restart=True)
    write_text(path, text)
    return path


def _one_of(key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(key, f"{value!r} is not allowed; allowed: {', '.join(allowed)}")


def _is_file(name: str) -> None:
    if name and not Path(name).expanduser().exists():
        raise InputError("data", f"{name}: no such file or folder")


def _space_question(task: Task) -> Question:
    fitting = tuple(name for name in shipped_spaces() if _fits(task, name))
    return Question("space", "Search space (a name, or a YAML file)?", task.first_space, fitting,
                    lambda name: task.check(load_space(name)))


def _fits(task: Task, name: str) -> bool:
    try:
        task.check(load_space(name))
    except InputError:
        return False
    return True


def _device_question() -> Question:
    """Offers the available devices; says why the others are not available."""
    rows = [row for row in list_devices(DevicesRequest(), StageProgress()) if row["shipped"]]
    there = tuple(row["name"] for row in rows if row["available"])
    contact = f"not contacted; {shell_command(Command('devices', check=True))} does"
    lacking = "".join(f"\n  {row['name']}: {row['why_not'] or contact}"
                      for row in rows if not row["available"])
    return Question("device", "Target device (a name, or a YAML file)?", "cpu", there, _check_device,
                    f"not available here, or not checked:{lacking}" if lacking else "")


def _check_device(name: str) -> None:
    why = why_not(load_profile(name))
    if why:
        raise InputError("device", f"{name} cannot be used here: {why}")


def _text(path: Path, answers: Mapping[str, str], data: Mapping[str, str]) -> str:
    small = answers["space"] == "lm-tiny"
    device = load_profile(answers["device"])
    comments = {"vocab_size": "  # as many tokens as the training text yields"}
    lines = [f"  {key}: {_written(value)}{comments.get(key, '')}\n" for key, value in data.items()]
    return TEMPLATE.format(
        run=_written(answers["run"]), folder=folder_of_run(answers["run"]), space=_written(answers["space"]),
        task=answers["task"], device=_written(answers["device"]), limit=f"latency:{device.name}",
        data=f"data:                         # as {AS_TRAIN}\n{''.join(lines)}".rstrip() if data else NO_DATA,
        command=shell_command(Command("run", path.name)),
        dry_run=shell_command(Command("run", path.name, dry_run=True)),
        **{name: shell_command(Command(name)) for name in ("spaces", "settings", "devices", "retrain")},
        budget="1m" if small and device.runtime == "torch-eager" else "3m",
        lr=tasks.get(answers["task"]).learning_rate, steps=400 if small else 2000,
        trials=60 if small else 200, retrain_steps=200 if small else 1000)


def _written(text: str) -> str:
    """A text in YAML, quoted if it would be read as another type."""
    try:
        same = yaml.safe_load(f"run: {text} # a comment") == {"run": text}
    except yaml.YAMLError:
        same = False
    return text if same else "'" + text.replace("'", "''") + "'"
