"""What the ranking benchmarks share: data, architectures and the recipe of a plain training to its end."""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path

import torch

from nas import tasks
from nas.costs import count
from nas.stages.rank.selection import Candidate, choose
from nas.tasks.base import Prepared
from search_spaces import load_space
from supernet.train.recipe import Recipe

SPREAD, BAND = 60, 40
"""Architectures over the whole range of multiply-adds, and within 10 % of each other."""
SEED = 0
PLAIN = Recipe(steps=4000, batch_size=16, optimiser="muon", lr=1e-2, warmup=100, final_lr=0.0, dropout=0.0,
               weight_decay=0.1, evaluate_every=0, device="cpu", precision="fp32")
"""A plain model trained to the end: ten passes over a megabyte of text, the learning rate falling to 0."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("space", help="a space file, such as benchmarks/spaces/rank-one.yaml")
    parser.add_argument("--text", required=True, help="a text of about a megabyte, such as tinyshakespeare")


def prepare(space: str, text: str) -> Prepared:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        return tasks.get("lm").prepare({"train": text}, load_space(space), Path(folder), SEED)


def architectures(prepared: Prepared) -> list[Candidate]:
    """60 over the range of costs, then 40 of about equal cost, each in an order that does not depend on cost."""
    chosen = choose(prepared.space, 2 * max(SPREAD, BAND), SEED, prepared.space.context)
    groups = {name: [candidate for candidate in chosen if candidate.group == name] for name in ("spread", "band")}
    shuffled = {name: random.Random(SEED).sample(group, len(group)) for name, group in groups.items()}
    return [*shuffled["spread"][:SPREAD], *shuffled["band"][:BAND]]


def costs(prepared: Prepared, candidate: Candidate) -> dict[str, int]:
    return {**candidate.baselines, "macs": count(candidate.arch, prepared.space.context).macs}
