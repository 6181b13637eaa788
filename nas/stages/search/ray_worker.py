"""The code and data of a search worker on Ray, which may not have access to the run's folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from ray.tune import Trainable

from nas.core.evaluation import place, read_supernet
from nas.stages.search.evaluator import Evaluate, Evaluation, Evaluator, FixedBatches, failure
from nas.stages.search.racing import Rival
from nas.stages.search.setup import SearchSetup
from nas.tasks.base import Prepared, Task
from search_spaces import Architecture
from supernet import Supernet
from supernet.train.recipe import Recipe

Make = Callable[[], Evaluate]
"""Makes the evaluator on a worker; sent to each of them once."""


class Portion(tuple[tuple[Architecture, Rival | None], ...]):
    """The architectures of a portion. Hidden from Ray Tune, which copies and prints settings."""

    def __deepcopy__(self, memo: object) -> Portion:
        return self

    def __repr__(self) -> str:
        return f"{len(self)} architectures"


class SearchWorker(Trainable):
    """Evaluates one portion after the other; errors of an architecture are recorded, not raised."""

    def setup(self, config: dict[str, Any], make: Make, threads: int) -> None:  # type: ignore[override]
        """Make the evaluator."""
        torch.set_num_threads(threads)
        self._evaluate = make()
        self._portion = Portion(config["work"])

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take the next portion."""
        self._portion = Portion(new_config["work"])
        return True

    def step(self) -> dict[str, Any]:
        """Evaluate a portion."""
        self.config = {}  # Tune sends it back with every result
        start = time.perf_counter()
        evaluations = [self._one(arch, rival) for arch, rival in self._portion]
        return {"evaluations": evaluations, "seconds": time.perf_counter() - start, "done": True}

    def _one(self, arch: Architecture, rival: Rival | None) -> Evaluation:
        try:
            return self._evaluate(arch, rival)
        except Exception as error:
            return Evaluation({}, reason=failure(error))


def parts(setup: SearchSetup, on_gpu: bool) -> Make:
    """The data sent to the workers of a search. Raises InputError if the supernet cannot be read."""
    run, recipe, device = setup.run, setup.run.config().training, "cuda" if on_gpu else "cpu"
    net = read_supernet(run, setup.space, recipe.model_copy(update={"device": "cpu"}))
    only: Any = FixedBatches(list(setup.prepared.valid.in_order(setup.batch_size, setup.config.limit)))
    return partial(_evaluator, net, setup.task, replace(setup.prepared, train=only, valid=only, test=only),
                   recipe.model_copy(update={"device": device}), setup.batch_size, setup.full)


def _evaluator(net: Supernet, task: Task, prepared: Prepared, recipe: Recipe, size: int, full: bool) -> Evaluator:
    return Evaluator(place(net, recipe), task, prepared, recipe, size=size, full=full)
