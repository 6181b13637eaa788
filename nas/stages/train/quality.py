"""Quick health check of a trained supernet: rarely trained tensors, and the gain from a few steps of training alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nas import tasks
from nas.core.evaluation import load_supernet, score
from nas.core.run_dir import RunDir
from nas.tasks.base import Prepared
from search_spaces import Architecture
from supernet import Supernet, extract
from supernet.train.coverage import coverage, least_trained
from supernet.train.recipe import Recipe
from supernet.train.step import Trainer
from supernet.train.strategy import Fixed, make_strategy

RARE = 0.1
"""Tensors that are trained in a smaller share of the passes are reported."""
PROBE_SHARE, LEAST_STEPS, MOST_STEPS = 0.05, 10, 100
"""The steps of a probe: this share of the supernet's, within these bounds."""
GAP = 0.05
"""Nats that a probe may gain before the supernet counts as undertrained."""


@dataclass(frozen=True)
class Probe:
    """An architecture that is trained alone for a few steps, starting from its inherited weights.

    Args:
        before: the validation loss with inherited weights.
        after: the loss after those steps.
    """

    name: str
    steps: int
    before: float
    after: float

    @property
    def gap(self) -> float:
        """What the architecture gains by training alone, in nats."""
        return self.before - self.after


def notes(run: RunDir, prepared: Prepared) -> Iterator[str]:
    """What a user should know about a fully trained supernet."""
    recipe = run.config().training
    if recipe.strategy == "largest":
        return
    rare = [(name, share) for name, share in _least_trained(prepared, recipe) if share < RARE]
    if rare:
        listed = ", ".join(f"{name} ({share:.1%})" for name, share in rare)
        yield f"least trained tensors, by the share of passes that train them: {listed}"
    probes = [probe(run, prepared, name, arch) for name, arch in
              (("smallest", prepared.space.smallest()), ("largest", prepared.space.largest()))]
    listed = ", ".join(f"{result.name} {result.gap:+.3f} nats" for result in probes)
    verdict = ("; the supernet is undertrained: train more steps" if max(result.gap for result in probes) > GAP
               else "; inherited weights are close to trained ones")
    yield f"loss reduction from {probes[0].steps} more steps of training alone: {listed}{verdict}"


def _least_trained(prepared: Prepared, recipe: Recipe) -> list[tuple[str, float]]:
    with torch.device("meta"):
        net = Supernet(prepared.space)
    strategy = make_strategy(recipe.strategy, prepared.space, recipe.seed, recipe.n_random, recipe.steps)
    return least_trained(coverage(net, strategy, recipe.steps))


def probe(run: RunDir, prepared: Prepared, name: str, arch: Architecture) -> Probe:
    """Train an architecture alone for a few steps, at a third of the learning rate, falling to zero."""
    config = run.config()
    steps = min(max(round(PROBE_SHARE * config.training.steps), LEAST_STEPS), MOST_STEPS)
    recipe = config.training.model_copy(update={"steps": steps, "warmup": 0, "lr": config.training.lr / 3,
                                                "final_lr": 0.0, "seed": config.training.seed + 1, "layerdrop": 0.0})
    model = extract(load_supernet(run, prepared.space), arch)
    task, limit = tasks.get(config.task), recipe.evaluate_limit or None
    before = score(model.eval(), arch, task, prepared, recipe, limit=limit)["loss"]
    trainer = Trainer(model, Fixed(arch), recipe, prepared.train)
    while not trainer.finished:
        trainer.step()
    return Probe(name, steps, before, score(model.eval(), arch, task, prepared, recipe, limit=limit)["loss"])
