"""The stage `nas extract`: chosen architectures cut out of a trained supernet, each in a folder of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from rich.console import Console, Group, RenderableType
from rich.text import Text

from nas.run_dir import RunDir, locked
from nas.search.evaluated import Evaluated, read_evaluated
from nas.search.measures import COUNTED, Measure
from nas.search.picking import Choice, pick
from nas.search.stage import Search
from nas.subnet import Facts, Made, Subnet, write_subnet
from nas.tables import table
from nas.train import load_supernet, score
from search_spaces import Architecture, InputError
from search_spaces.errors import CheckFailedError
from supernet import Supernet, Transformer
from supernet import extract as cut_out
from supernet.batch import Batch, Split
from supernet.checkpoint import newest_step
from supernet.training import run_model
from supernet.writing import delete

TOLERANCE = 1e-5
"""The most that a subnet's outputs may differ from the supernet's."""
CHECKED = 4
"""Validation batches they are compared on."""


@dataclass(frozen=True)
class Extracted:
    """The subnets asked for.

    Args:
        kept: the keys of those that were there already.
        columns: the measures a reader asked for.
    """

    run: RunDir
    subnets: list[Subnet]
    kept: frozenset[str]
    columns: tuple[Measure, ...]

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        return {"run": self.run.name, "subnets": [
            {"key": each.arch.key, "folder": str(each.path), "kept": each.arch.key in self.kept,
             "metrics": each.facts.metrics, "costs": each.facts.costs} for each in self.subnets]}

    def table(self) -> RenderableType:
        """For a reader, and what to do next."""
        metrics = list(self.subnets[0].facts.metrics)
        names = [*metrics, *(measure.name for measure in self.columns)]
        made = table("key", *names, right=tuple(names))
        for each in self.subnets:
            quality = [math.nan if (value := each.facts.metrics.get(name)) is None else value for name in metrics]
            made.add_row(each.arch.key[:12], *(f"{value:.4f}" for value in quality),
                         *(measure.show(each.facts.costs[measure.name]) for measure in self.columns))
        first = self.subnets[0].path
        says = [f"kept as it was: {', '.join(sorted(key[:12] for key in self.kept))}"] if self.kept else []
        says += [f"read about it: {first}/README.md", f"train it on its own: nas retrain {first}",
                 f"ship it: nas export {first} --format onnx"]
        return Group(Text(f"{first.parent}/, a folder for each key", style="bold"), made,
                     Text("\n".join(says), no_wrap=True, overflow="ignore"))


def extract(run: str, choice: Choice, console: Console) -> Extracted:
    """Choose among what was searched, cut it out, check it and write it; what is there already is kept.

    Raises:
        InputError: there is no search, nothing fits the choice, or a folder cannot be written.
        CheckFailedError: a subnet's outputs are not the supernet's.
    """
    folder = RunDir.open(run)
    found, entries = pick(folder, choice)
    if choice.top is not None and len(entries) < choice.top:
        console.print(f"note: {len(entries)} architectures are all there are", markup=False)
    return _extracted(folder, found, [entry.arch for entry in entries], console)


def extract_ends(run: str, console: Console) -> Extracted:
    """The same of the smallest and the largest architecture of the space, whatever the search found. Raises alike."""
    folder = RunDir.open(run)
    found = read_evaluated(folder)
    space = found.search.space
    return _extracted(folder, found, [space.smallest(), space.largest()], console)


def _extracted(folder: RunDir, found: Evaluated, archs: Sequence[Architecture], console: Console) -> Extracted:
    stage = _Stage(folder, found.search)
    subnets = folder.path / "subnets"
    subnets.mkdir(exist_ok=True)
    with locked(subnets, "run's subnets"), console.status("extracting ...") as status:
        kept = {arch.key for arch in archs if (subnets / arch.key[:12]).exists()}
        made = []
        for place, arch in enumerate(archs, 1):
            status.update(f"extracting {place} of {len(archs)} ...")
            made.append(stage.keep(arch) if arch.key in kept else stage.make(arch))
    costs = [measure for measure in found.objectives if not measure.is_quality]
    columns = dict.fromkeys((*costs, *(Measure(kind) for kind in COUNTED if kind != "weight_bytes")))
    return Extracted(folder, made, frozenset(kept), tuple(columns))


class _Stage:
    """Everything that is needed to cut out one architecture after the other."""

    def __init__(self, run: RunDir, search: Search) -> None:
        self.run, self.search, self.prepared = run, search, search.prepared
        self.config = run.config()

    @cached_property
    def net(self) -> Supernet:
        """The supernet; what is kept needs none."""
        return load_supernet(self.run, self.prepared.space)

    def make(self, arch: Architecture) -> Subnet:
        """Cut out an architecture, check and score it, and write its folder."""
        model = cut_out(self.net, arch)
        difference = check_same(self.net, model, self.prepared.valid, self.config.training.batch_size)
        metrics = score(model, arch, self.search.task, self.prepared, self.config.training, full=True)
        settings = {"space": self.prepared.space.name, "supernet_steps": self._steps(),
                    "difference_to_supernet": difference}
        facts = Facts(
            key=arch.key, task=self.config.task, run=str(self.run.path), data=self.config.data,
            labels=self.prepared.labels, costs=self.search.prices.all_of(arch),
            made=(Made(stage="extract", settings=settings, metrics=finite(metrics)),))
        folder = self._folder(arch)
        for left in folder.parent.glob(f".{folder.name}.*"):  # by a process that was killed
            delete(left)
        return write_subnet(folder, model, self.prepared.tokenizer, facts)

    def keep(self, arch: Architecture) -> Subnet:
        """A subnet that is there already, with today's costs. Raises InputError where it is damaged."""
        folder = self._folder(arch)
        try:
            found = Subnet.open(str(folder))
            found.model()
        except InputError as error:
            raise InputError(str(folder), f"is there but cannot be used ({error.faults[0].says.split(';')[0]}); delete "
                                          "it to extract it again") from None
        costs = {**found.facts.costs, **self.search.prices.all_of(arch)}
        if costs == found.facts.costs:
            return found
        return found.write_facts(found.facts.model_copy(update={"costs": costs}))

    def _folder(self, arch: Architecture) -> Path:
        return self.run.path / "subnets" / arch.key[:12]

    def _steps(self) -> int:
        """The steps that the supernet was trained for; an early stop ends before the recipe does."""
        return newest_step(self.run.path / "checkpoints") or self.config.training.steps


def check_same(net: Supernet, model: Transformer, split: Split, size: int) -> float:
    """The largest difference between the outputs of a supernet and of what was cut out, on real batches.

    Raises:
        CheckFailedError: it is more than `TOLERANCE`, or not finite.
    """
    difference = 0.0
    with torch.no_grad():
        for batch in islice(_batches(net, split, size), CHECKED):
            both = (run_model(each, model.arch, batch) for each in (net, model))
            found = torch.sub(*both).abs().max().item()
            if not found <= TOLERANCE:
                raise CheckFailedError(model.arch.key[:12], f"its outputs differ from the supernet's by {found:g}, "
                                                            f"more than {TOLERANCE:g}; it is not written")
            difference = max(difference, found)
    return difference


def _batches(net: Supernet, split: Split, size: int) -> Iterator[Batch]:
    device = next(net.parameters()).device
    return (batch.to(device) for batch in split.in_order(size, CHECKED * size))


def finite(metrics: dict[str, float]) -> dict[str, float | None]:
    """Metrics as JSON has them: what is no finite number is none."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}
