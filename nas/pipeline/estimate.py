"""About how long stages take, by trying a little of each on made-up tokens; nothing is written."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import torch

from nas.pipeline.config import PipelineConfig
from nas.pipeline.stages import measurable
from nas.profile_command import parse_time
from nas.search.config import make_search
from nas.train import place
from search_spaces import Architecture, load_space
from supernet import Supernet, Transformer
from supernet.batch import Batch
from supernet.recipe import Recipe
from supernet.sampling import Fixed, make_strategy
from supernet.training import Trainer, predict

STEPS = 2
"""Steps that are tried, after one that does not count."""
PICKED = 1.0
EXPORT_S, MEASURE_S, CHECK_S, REPORT_S = 20.0, 60.0, 90.0, 5.0
"""What cannot be tried beforehand: a guess."""


class _Noise:
    """A split of random tokens, as long as they may be."""

    def __init__(self, arch: Architecture) -> None:
        self.arch = arch

    def __len__(self) -> int:
        return 1_000_000

    def batch(self, index: int, size: int, seed: int) -> Batch:
        """Tokens that no one wrote."""
        arch, rng = self.arch, torch.Generator().manual_seed(index)
        ids = torch.randint(arch.vocab_size, (size, arch.context), generator=rng)
        if arch.family == "encoder":
            return Batch(ids, torch.randint(max(arch.n_classes, 1), (size,), generator=rng))
        return Batch(ids, ids, ids if arch.family == "seq2seq" else None)

    def in_order(self, size: int, limit: int | None = None) -> Iterator[Batch]:
        """As many batches as asked for."""
        return (self.batch(i, size, 0) for i in range(-(-(limit or size) // size)))


def estimates(config: PipelineConfig) -> dict[str, float]:
    """Seconds of every stage that a config asks for, on this machine."""
    space, recipe = load_space(config.space), config.run_config().training
    net = place(Supernet(space, seed=0, dropout=recipe.dropout), recipe)
    noise = _Noise(space.largest())
    strategy = make_strategy(recipe.strategy, space, recipe.seed, recipe.n_random, recipe.steps)
    found = {"train": recipe.steps * _step_s(Trainer(net, strategy, recipe, noise)),
             "profile": sum(parse_time(each.budget) + (CHECK_S if each.check else 0.0) for each in config.devices),
             "export": EXPORT_S * len(config.export), "measure": MEASURE_S * len(measurable(config)),
             "report": REPORT_S}
    search = make_search(config.search_settings(), "search")
    arch = space.sample(random.Random(0))  # noqa: S311
    found["search"] = search.trials * _evaluation_s(net, arch, noise, recipe, search.limit or 1000)
    if config.retrain is not None:
        again = config.retrain.recipe(recipe)
        taught = 1.0 if config.retrain.teacher == "none" else 1.5  # the teacher reads every batch too
        picked = sum(each.top or PICKED for each in config.pick)
        found["retrain"] = picked * taught * again.steps * _plain_step_s(arch, again, noise)
    if config.plain:
        found["plain"] = config.all_steps() * sum(_plain_step_s(end, recipe, noise)
                                                  for end in (space.smallest(), space.largest()))
    return found


def _plain_step_s(arch: Architecture, recipe: Recipe, noise: _Noise) -> float:
    model = place(Transformer(arch, dropout=recipe.dropout, seed=0), recipe)
    return _step_s(Trainer(model, Fixed(arch), recipe, noise))


def _step_s(trainer: Trainer) -> float:
    trainer.step()
    start = time.monotonic()
    for _ in range(STEPS):
        trainer.step()
    return (time.monotonic() - start) / STEPS


def _evaluation_s(net: Supernet, arch: Architecture, noise: _Noise, recipe: Recipe, limit: int) -> float:
    batch = noise.batch(0, min(8, limit), 0).to(next(net.parameters()).device)
    net.eval()
    with torch.no_grad():
        predict(net, arch, batch, recipe)
        start = time.monotonic()
        predict(net, arch, batch, recipe)
    return (time.monotonic() - start) * limit / len(batch.tokens)
