"""The request of the stage `train`: a new run, or one to resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nas import tasks
from nas.core.config import RunConfig, make_recipe, make_run_config
from nas.core.evaluation import pick_device
from nas.core.training_budget import with_steps
from nas.stages.train.init import fine_tuning_recipe, task_and_data
from search_spaces import Fault, InputError, load_space
from search_spaces.errors import Option
from supernet.train.recipe import Recipe

CLUSTER_DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class TrainRequest:
    """A supernet to train. Raises InputError if it is neither a new run nor one to resume.

    Args:
        space: a shipped space or a YAML file.
        run: the new run's name.
        task: by default that of `init`.
        data: where the data are, such as `{"train": "my.txt"}`; by default those of `init`, if it has the same task,
            else the bundled sample data. The tokenizer of `init` is kept.
        training: settings of the recipe, such as `{"steps": 2000}`; `passes` or `macs` instead of steps give the cost.
            The defaults of runs with `init` are those of fine-tuning.
        init: a subnet, or a finished run whose largest architecture it is; the supernet starts from it and learns
            from it.
        resume: the run to resume; everything above is then optional, and must agree with the run if given.
        check: whether to report rarely trained tensors, and how much two architectures gain from a few steps alone.
        workers: data-parallel processes; more than one run on the Ray cluster at the address `ray`.
    """

    space: str | None = None
    task: str | None = None
    run: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    init: str | None = None
    resume: str | None = None
    check: bool = True
    workers: int = 1
    ray: str = "local"

    def __post_init__(self) -> None:
        needed = ("space", "run") if self.init is not None else ("space", "task", "run")
        missing = [str(Option(name)) for name in needed if getattr(self, name) is None]
        if self.resume is None and missing:
            start = f", or {Option('init')} SUBNET to start from a trained model" if self.task is None else ""
            raise InputError("", f"a new run needs {' and '.join(missing)}{start if self.init is None else ''}; resume "
                                 f"an old one with {Option('resume')} NAME")
        if self.resume is not None and self.run not in (None, self.resume):
            raise InputError(Option("run"), f"is allowed for a new run only; {Option('resume')} {self.resume} resumes "
                                            "an existing one")

    def new_config(self) -> RunConfig:
        """The config of a new run. Raises InputError with all faults."""
        assert self.space is not None, "see __post_init__"
        task, data = self._task_and_data()
        base = tasks.get(task).recipe if self.init is None else fine_tuning_recipe(self.init)
        recipe = make_recipe(with_steps(self.training, self.space, base), base)
        config = make_run_config(self.space, task, data, recipe, self.init)
        if config.init is not None and config.training.order_at:
            raise InputError("order_at", f"applies to random initial weights only; the model of {Option('init')} is "
                                         "ordered before the first step")
        self._check_machine(config.training)
        tasks.get(task).check(load_space(self.space))
        return config

    def _task_and_data(self) -> tuple[str, Mapping[str, Any]]:
        """As given; else those of the model that the run starts from. Raises InputError if that has no task."""
        if self.init is None:
            return str(self.task), self.data
        task, data = task_and_data(self.init)
        if self.task is None and not task:
            raise InputError(Option("task"), f"is needed: {self.init} is an imported encoder without a task")
        if self.data or self.task not in (None, task):
            data = {key: data[key] for key in ("tokenizer",) if key in data}
        return self.task or task, {**data, **self.data}

    def resumed_config(self, old: RunConfig, where: str) -> RunConfig:
        """The config of a run that is resumed. Raises InputError for every change that would affect the weights.

        Args:
            where: the run's folder, for errors.
        """
        config = make_run_config(self.space or old.space, self.task or old.task, {**old.data, **self.data},
                                 make_recipe(with_steps(self.training, old.space, old.training), old.training),
                                 self.init or old.init)
        faults = [Fault("", f"{difference}; to change it, start a new run") for difference in old.differences(config)]
        if faults:
            raise InputError(where, faults)
        self._check_machine(config.training)
        return config

    def _check_machine(self, recipe: Recipe) -> None:
        """Raises InputError if there is no such device, or a worker would get no rows of a batch."""
        if self.workers == 1:
            pick_device(recipe.device)
        elif recipe.device not in CLUSTER_DEVICES:
            raise InputError("device", f"{recipe.device!r} is not allowed with several workers; allowed: "
                                       f"{', '.join(CLUSTER_DEVICES)}; each worker gets its own")
        if recipe.batch_size < self.workers:
            raise InputError(Option("workers"),
                             f"{self.workers} workers cannot share a batch_size of {recipe.batch_size}")
