"""What training the supernet costs against training plain models, on one thread.

Prints one JSON line. `sandwich_ratio`: forward and backward of a sandwich step, distillation included, over the sum of
the plain forward and backward of the same architectures against labels; interleaved, the median over several draws.
`optimiser_share`: of a whole sandwich step. `memory_ratio`: peak of sandwich training over that of training the largest
architecture alone, each over what its process held before, AdamW included, the median of three processes: how a heap
is cut up is chance. `throughput_ratio`: tokens per second of the
strategy `largest` over a loop written by hand on the plain model, optimiser, clipping and schedule included.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys

import torch
import torch.nn.functional as F
from _measuring import interleaved, resident

from search_spaces import load_space
from supernet import Supernet, Transformer
from supernet.batch import Batch
from supernet.train.recipe import Recipe
from supernet.train.step import Trainer
from supernet.train.strategy import Fixed, Sandwich

SPACE, LENGTH = "lm-small", 128
RECIPE = Recipe(dropout=0.0, steps=10_000)


class RandomTokens:
    """Endless random sequences: the time of a step does not depend on what they say."""

    def __init__(self, vocab_size: int) -> None:
        rows = torch.randint(vocab_size, (64, LENGTH + 1), generator=torch.Generator().manual_seed(0))
        self.tokens, self.labels = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    def batch(self, index: int, size: int, seed: int) -> Batch:
        first = index * size % (64 - size + 1)
        return Batch(self.tokens[first : first + size], self.labels[first : first + size])


def plain_loss(model: Transformer, batch: Batch) -> torch.Tensor:
    return F.cross_entropy(model(batch.tokens).flatten(0, 1), batch.labels.flatten())


def sandwich_ratio(space, data, draw: int, rounds: int) -> float:
    """One draw's sandwich against its architectures one by one."""
    archs = Sandwich(space, seed=0, n_random=2).draw(draw)
    trainer = Trainer(Supernet(space), Fixed(archs[0]), RECIPE, data)
    models = [Transformer(arch, seed=0) for arch in archs]
    batch = data.batch(draw, RECIPE.batch_size, 0)

    def together() -> None:
        trainer.clear_gradients(len(archs))
        trainer.add_gradients(archs, batch, batch.n_labels)

    def apart(model: Transformer) -> None:
        for parameter in model.parameters():
            parameter.grad = None
        plain_loss(model, batch).backward()

    got = interleaved({"together": together, **{str(i): lambda model=model: apart(model)
                                                for i, model in enumerate(models)}}, rounds)
    return got.pop("together") / sum(got.values())


def optimiser_share(space, data, rounds: int) -> float:
    trainer = Trainer(Supernet(space), Sandwich(space, seed=0, n_random=2), RECIPE, data)
    trainer.step()
    got = interleaved({"step": trainer.step, "optimiser": trainer.optimiser.step}, rounds)
    return got["optimiser"] / got["step"]


def throughput_ratio(space, data, rounds: int) -> float:
    """Seconds of a step written by hand over those of the training loop, on the largest architecture."""
    arch = space.largest()
    model = Transformer(arch, seed=0).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=RECIPE.lr, betas=(0.9, RECIPE.beta2), fused=True)
    trainer = Trainer(Supernet(space), Fixed(arch), RECIPE, data)

    def by_hand() -> None:
        optimiser.zero_grad(set_to_none=True)
        plain_loss(model, data.batch(0, RECIPE.batch_size, 0)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), RECIPE.clip)
        optimiser.step()

    got = interleaved({"by_hand": by_hand, "loop": trainer.step}, rounds)
    return got["by_hand"] / got["loop"]


def peak_memory(space, data, variant: str) -> int:
    """Peak of a few training steps in this process, over what it held before."""
    tiny = load_space("lm-tiny")
    warm = Trainer(Supernet(tiny), Sandwich(tiny, 0), RECIPE, RandomTokens(tiny.vocab_size))
    warm.step()  # so that libraries loaded on first use do not count
    before = resident("VmRSS")
    if variant == "plain":
        trainer = Trainer(Transformer(space.largest(), seed=0), Fixed(space.largest()), RECIPE, data)
    else:
        trainer = Trainer(Supernet(space), Sandwich(space, 0), RECIPE, data)
    for _ in range(5):
        trainer.step()
    return resident("VmHWM") - before


def memory_ratio(processes: int = 3) -> float:
    def peak(variant: str) -> int:
        argv = [sys.executable, __file__, "--memory", variant]
        return int(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)

    plain, sandwich = (statistics.median(peak(variant) for _ in range(processes)) for variant in ("plain", "sandwich"))
    return sandwich / plain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--memory", choices=("plain", "sandwich"), help="measure one peak and print it")
    options = parser.parse_args()
    torch.set_num_threads(1)
    space = load_space(SPACE)
    data = RandomTokens(space.vocab_size)
    if options.memory:
        print(peak_memory(space, data, options.memory))
        return
    ratios = [sandwich_ratio(space, data, draw, options.rounds) for draw in range(options.draws)]
    print(json.dumps({
        "benchmark": "training", "space": SPACE, "batch": RECIPE.batch_size, "length": LENGTH,
        "sandwich_ratio": round(statistics.median(ratios), 4), "sandwich_ratios": [round(ratio, 4) for ratio in ratios],
        "optimiser_share": round(optimiser_share(space, data, options.rounds), 4),
        "memory_ratio": round(memory_ratio(), 4),
        "throughput_ratio": round(throughput_ratio(space, data, options.rounds), 4),
    }))


if __name__ == "__main__":
    main()
