"""Which choices of a space pull shared weights in different directions.

    python benchmarks/gradient_conflict.py benchmarks/spaces/rank-one.yaml --text FILE \\
        [--set steps=5000 ...] [--architectures 120] [--results benchmarks/results]

Trains a supernet, computes the gradient of random architectures on one large batch, and splits its variance among
architectures (an analysis of variance with one factor per gene; genes of one slot are compared on the tensors of that
slot only). Weights that two architectures share and both train are in conflict if their gradients differ although the
supernet has converged. Prints one JSON line: for each choice the share of the variance that its value explains.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from typing import Any

import torch
from _ranking import PLAIN, add_arguments, prepare
from _results import add_option, append
from inherited_ranking import train
from torch import Tensor

from nas.core.config import make_recipe
from nas.tasks.base import Prepared
from search_spaces.space.even import draw_even
from supernet import Supernet
from supernet.batch import Batch
from supernet.inference import run_model
from supernet.train.losses import label_loss, labelled
from supernet.train.strategy import generator

DEFAULTS: dict[str, Any] = {"strategy": "turns", "steps": 5000}
BATCH = 96
FEWEST = 20
"""Architectures that have to train a tensor, so that its variance is known."""


def gradients(net: Supernet, prepared: Prepared, n: int) -> tuple[list[dict[str, Any]], dict[str, dict[int, Tensor]]]:
    """Genotypes, and by stored tensor the gradient of every architecture that reads it."""
    batch, genotypes = prepared.train.batch(0, BATCH, seed=1), []
    by_tensor: dict[str, dict[int, Tensor]] = defaultdict(dict)
    for i in range(n):
        genotypes.append(draw_even(prepared.space, generator(0, "conflict", i)))
        add_gradient(net, prepared, genotypes[-1], batch)
        for name, parameter in net.named_parameters():
            if parameter.grad is not None:
                by_tensor[name][i] = parameter.grad.flatten().double()
    return genotypes, by_tensor


def add_gradient(net: Supernet, prepared: Prepared, genotype: dict[str, Any], batch: Batch) -> None:
    net.zero_grad(set_to_none=True)
    logits, labels = labelled(run_model(net, prepared.space.decode(genotype), batch), batch.labels)
    (label_loss(logits, labels, 0.0) / len(labels)).backward()


def explained(rows: Tensor, values: list[Any]) -> tuple[float, float]:
    """Variance between architectures with different values, corrected for chance, and all variance.

    Args:
        rows: a gradient per architecture; elements outside of its slice are exactly 0 and do not count.
        values: of the gene, one per row.
    """
    reached = rows != 0
    mean = rows.sum(0) / reached.sum(0).clamp(min=1)
    rest = torch.where(reached, rows - mean, torch.zeros_like(rows))
    total, between = float(rest.square().sum()), 0.0
    for value in set(values):
        members = [i for i, other in enumerate(values) if other == value]
        between += float((rest[members].sum(0).square() / reached[members].sum(0).clamp(min=1)).sum())
    return between - total * (len(set(values)) - 1) / (len(values) - 1), total


def shares(genotypes: list[dict[str, Any]], by_tensor: dict[str, dict[int, Tensor]]) -> dict[str, float]:
    """The share of the variance that each choice explains; the same choice of several slots is one."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for name, found in by_tensor.items():
        if len(found) < FEWEST:
            continue
        rows, slot = torch.stack(list(found.values())), re.search(r"/(\d+)/", name)
        for gene in genotypes[0]:
            of_slot = re.search(r"\.(\d+)\.", gene)
            if of_slot and (slot is None or slot[1] != of_slot[1]):
                continue
            between, total = explained(rows, [genotypes[i][gene] for i in found])
            choice = sums[re.sub(r"\.\d+\.", ".*.", gene)]
            choice[0], choice[1] = choice[0] + between, choice[1] + total
    return {choice: between / total for choice, (between, total) in sums.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the training")
    parser.add_argument("--architectures", type=int, default=120)
    add_option(parser)
    options = parser.parse_args()
    prepared = prepare(options.space, options.text)
    recipe = make_recipe({**PLAIN.model_dump(), **DEFAULTS, **dict(setting.split("=", 1) for setting in options.set)})
    net, _ = train(prepared, recipe)
    ranked = sorted(shares(*gradients(net, prepared, options.architectures)).items(), key=lambda item: -item[1])
    about = {"space": prepared.space.name, "strategy": recipe.strategy, "steps": recipe.steps, "seed": recipe.seed}
    print(json.dumps({"benchmark": "gradient_conflict", **about,
                      "explained": {choice: round(share, 3) for choice, share in ranked}}))
    append(options.results, "gradient_conflict", [{**about, "choice": choice, "explained": round(share, 4)}
                                                  for choice, share in ranked])


if __name__ == "__main__":
    main()
