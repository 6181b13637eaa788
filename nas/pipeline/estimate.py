"""Estimates the duration of stages: prepares the data and runs a small part of each stage; keeps nothing."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hardware_profiles.device import load_profile
from nas import tasks
from nas.core import evaluation
from nas.core.durations import parse_time
from nas.core.run_dir import RunDir
from nas.core.search_config import make_search
from nas.pipeline.config import PipelineConfig
from nas.pipeline.stages import measurable
from nas.stages.profile.run import is_profiled, why_too_short
from nas.stages.search.evaluator import Evaluator
from nas.stages.train.training import make_trainer
from nas.tasks.base import Prepared, Task
from search_spaces import Architecture, SearchSpace, load_space
from search_spaces.errors import Option
from supernet import Supernet, Transformer
from supernet.train.fit import enough_memory, less_memory
from supernet.train.recipe import Recipe
from supernet.train.step import Trainer
from supernet.train.strategy import Fixed

Note = Callable[[str], None]
STEPS, TRY_S, MOST_STEPS = 4, 1.0, 40
"""Minimum number of trial steps after a warm-up step; seconds for more of them; maximum number."""
ARCHS = 4
"""Number of architectures for estimating evaluations and retrainings."""
TAUGHT = 1.5
"""Slowdown of a step with a teacher."""
SOME, EXTRACT_S = 50, 1.0
"""Validation examples for estimating the duration of all; seconds of an extraction besides evaluation."""
SEARCH_S, PROPOSAL_S = 5.0, 0.05
"""Seconds of looking for feasible architectures before a search, and of proposing one."""
EXPORT_S, MEASURE_S, MODEL_S, REPORT_S, ROOFLINE_S, KNOWN_S = 5.0, 3.0, 2.0, 2.0, 5.0, 2.0
"""Seconds of work that cannot be tried beforehand: a format of a model; a device to measure on, and each model on it;
the report; an estimated device; a device that is profiled already. On two cores 4 models took 5.6 s on `cpu`, 2 models
10 s on `cpu-onnxruntime` and 9.6 s to export as ONNX, a report 1.6 s."""


@dataclass(frozen=True)
class Trial:
    """The data and models for estimates."""

    config: PipelineConfig
    task: Task
    prepared: Prepared
    recipe: Recipe
    archs: Sequence[Architecture]

    def trained_s(self, trainer: Trainer, archs: dict[str, Architecture]) -> float:
        """Seconds of a whole training, evaluations included."""
        recipe = trainer.recipe
        n = max(recipe.steps // recipe.evaluate_every if recipe.evaluate_every else 0, 1)
        evaluate = evaluation.evaluator(self.task, self.prepared, archs)
        return recipe.steps * _step_s(trainer) + n * _seconds(lambda: evaluate(trainer))

    def plain_s(self, arch: Architecture, recipe: Recipe) -> float:
        """Seconds of training one architecture as a plain model."""
        model = evaluation.place(Transformer(arch, dropout=recipe.dropout, seed=0), recipe)
        return self.trained_s(Trainer(model, Fixed(arch), recipe, self.prepared.train), {"model": arch})


def estimates(config: PipelineConfig, note: Note = lambda _: None) -> dict[str, float]:
    """Seconds of every stage that a config asks for, on this machine.

    Args:
        note: receives sentences for the user, such as about a budget that is too short.

    Raises:
        InputError: the data are wrong, or memory runs out.
    """
    recipe = config.run_config().training
    with enough_memory(Option("dry_run"), less_memory(recipe)):
        return _estimates(config, recipe, note)


def _estimates(config: PipelineConfig, recipe: Recipe, note: Note) -> dict[str, float]:
    task = tasks.get(config.task)
    start = time.monotonic()
    prepared = _prepared(config, task, recipe)
    seconds = {"prepare": time.monotonic() - start, "profile": _profile_s(config, prepared.space, note),
               "export": EXPORT_S * len(config.export) * _n_picked(config),
               "measure": (MEASURE_S + MODEL_S * (_n_picked(config) + 2 * config.plain)) * len(measurable(config)),
               "report": REPORT_S}
    space, rng = prepared.space, random.Random(0)  # noqa: S311 - no secret
    trial = Trial(config, task, prepared, recipe, [space.sample(rng) for _ in range(ARCHS)])
    trainer = make_trainer(prepared, recipe)
    ends = {"largest": space.largest()} | ({} if recipe.strategy == "largest" else {"smallest": space.smallest()})
    seconds["train"] = trial.trained_s(trainer, ends)
    assert isinstance(trainer.model, Supernet)
    seconds |= _searched_s(trial, trainer.model)
    if config.retrain is not None:
        again = config.retrain.recipe(recipe)
        taught = 1.0 if config.retrain.teacher == "none" else TAUGHT
        per_model = sum(trial.plain_s(arch, again) for arch in trial.archs) / ARCHS
        seconds["retrain"] = _n_picked(config) * (taught * per_model + seconds["extract"] / _n_picked(config))
    if config.plain:
        longer = recipe.model_copy(update={"steps": config.all_steps()})
        seconds["plain"] = sum(trial.plain_s(end, longer) for end in (space.smallest(), space.largest()))
    return seconds


def _prepared(config: PipelineConfig, task: Task, recipe: Recipe) -> Prepared:
    """The data of the run, or the same in a folder that is deleted."""
    run = RunDir(config.run)
    if run.config_path.is_file():
        return evaluation.prepare(run)
    with tempfile.TemporaryDirectory() as folder:
        return task.prepare(config.data, load_space(config.space), Path(folder) / "data", recipe.seed)


def _profile_s(config: PipelineConfig, space: SearchSpace, note: Note) -> float:
    """The budgets, or the minimum if it is longer; for devices that are already profiled, only the check."""
    run, total = RunDir(config.run), 0.0
    for i, part in enumerate(config.devices):
        device = load_profile(part.device)
        budget_s = ROOFLINE_S if device.estimated else parse_time(part.budget)
        total += budget_s if part.check else 0.0
        if run.config_path.is_file() and is_profiled(part.device, str(run.path)):
            total += KNOWN_S
            continue
        least_s, why = why_too_short(device, space, budget_s)
        if why:
            note(f"devices.{i}.budget: {why}; the pipeline extends it to this time")
        total += max(budget_s, least_s) if why else budget_s
    return total


def _searched_s(trial: Trial, net: Supernet) -> dict[str, float]:
    """Seconds of the search and of the extraction, which evaluates what was picked on all examples."""
    search = make_search(trial.config.search_settings(), "search")
    evaluator = Evaluator(net, trial.task, trial.prepared, trial.recipe, limit=search.limit or 1000)
    per_trial = sum(_seconds(lambda arch=arch: evaluator(arch)) for arch in trial.archs) / ARCHS  # type: ignore[misc]
    n, some = len(trial.prepared.valid), min(len(trial.prepared.valid), SOME)
    scored = _seconds(lambda: evaluation.score(net, trial.archs[0], trial.task, trial.prepared, trial.recipe, full=True,
                                          limit=some))
    return {"search": SEARCH_S + search.trials * (per_trial + PROPOSAL_S),
            "extract": _n_picked(trial.config) * (EXTRACT_S + scored * n / some)}


def _n_picked(config: PipelineConfig) -> int:
    return sum(pick.top or 1 for pick in config.pick)


def _seconds(call: Callable[[], object]) -> float:
    start = time.monotonic()
    call()
    return time.monotonic() - start


def _step_s(trainer: Trainer) -> float:
    trainer.step()
    start, n = time.monotonic(), 0
    while n < STEPS or time.monotonic() - start < TRY_S and n < MOST_STEPS:
        trainer.step()
        n += 1
    return (time.monotonic() - start) / n
