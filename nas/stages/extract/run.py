"""The stage `extract`: selected architectures extracted from a trained supernet, each into its own folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from nas import tasks
from nas.core.evaluated import SearchedRun, read_evaluated
from nas.core.evaluation import load_supernet, prepare, score
from nas.core.fronts import FrontEntry
from nas.core.marks import warn_unmeasured
from nas.core.measures import Measure, summarised
from nas.core.names import SUBNETS
from nas.core.picking import pick
from nas.core.progress import StageProgress
from nas.core.run_dir import RunDir, locked
from nas.core.run_prices import load_prices
from nas.core.stopping import Stopped
from nas.core.subnet import HistoryStep, Subnet, SubnetFacts, finite, write_subnet
from nas.core.trials import UNMEASURED
from nas.stages.extract.request import ExtractRequest
from nas.tasks.base import Prepared
from search_spaces import Architecture, InputError
from search_spaces.errors import CheckFailedError
from supernet import Supernet, Transformer, extract
from supernet.batch import Batch, Split
from supernet.inference import run_model
from supernet.train.checkpoint import newest_step

TOLERANCE = 1e-5
"""Maximum difference between a subnet's outputs and the supernet's."""
CHECKED = 4
"""Number of validation batches for the comparison."""


@dataclass(frozen=True)
class ExtractResult:
    """The extracted subnets.

    Args:
        kept: the keys of existing subnets.
        columns: the costs to show.
    """

    run: RunDir
    subnets: list[Subnet]
    kept: frozenset[str]
    columns: tuple[Measure, ...]

    def to_dict(self) -> dict[str, Any]:
        """Data for JSON output."""
        return {"run": self.run.name, "subnets": [
            {"key": subnet.arch.key, "folder": str(subnet.path), "kept": subnet.arch.key in self.kept,
             "metrics": subnet.facts.metrics, "costs": subnet.facts.costs,
             UNMEASURED: subnet.facts.unmeasured_share} for subnet in self.subnets]}


def run(request: ExtractRequest, progress: StageProgress) -> ExtractResult:
    """Select architectures, extract, check and write them; existing subnets are kept.

    Raises:
        InputError: there is no search, nothing fits the choice, or a folder cannot be written.
        CheckFailedError: a subnet's outputs differ from the supernet's.
        Stopped: the user stopped it; the same request extracts the others.
    """
    folder = RunDir.open(request.run)
    searched, chosen = _ends(folder) if request.choice is None else pick(folder, request.choice)
    if request.choice is not None and request.choice.top is not None and len(chosen) < request.choice.top:
        progress.note(f"note: only {len(chosen)} architectures exist")
    subnets, kept = _extract(folder, searched, chosen, progress)
    costs = [measure for measure in searched.objectives if not measure.is_quality]
    columns = dict.fromkeys((*costs, *summarised()))
    warn_unmeasured([subnet.facts.unmeasured_share for subnet in subnets], [*columns], str(folder.path), "extracted")
    return ExtractResult(folder, subnets, kept, tuple(columns))


def _ends(folder: RunDir) -> tuple[SearchedRun, list[FrontEntry]]:
    """The smallest and the largest architecture of the space, priced on all devices of the search."""
    searched = read_evaluated(folder)
    space, task = searched.space, tasks.get(folder.config().task)
    prices = load_prices(searched.config.all_devices(task), space, folder)
    return searched, [FrontEntry(arch, {}, prices.all_of(arch), prices.unmeasured_of(arch))
                      for arch in (space.smallest(), space.largest())]


def _extract(folder: RunDir, searched: SearchedRun, chosen: Sequence[FrontEntry],
             progress: StageProgress) -> tuple[list[Subnet], frozenset[str]]:
    """The subnets of the chosen architectures, and the keys of those that are kept."""
    extraction, there = _Extraction(folder, searched), folder.path / SUBNETS
    there.mkdir(exist_ok=True)
    with locked(there, "run's subnets"):
        kept = frozenset(entry.arch.key for entry in chosen if (there / entry.arch.key[:12]).exists())
        subnets: list[Subnet] = []
        for entry in chosen:
            if progress.stop():
                raise Stopped(f"stopped after {len(subnets)} of {len(chosen)} subnets; run the same command again to "
                              "extract the others")
            progress.status(f"extracting {len(subnets) + 1} of {len(chosen)} ...")
            with progress.breakable():
                subnets.append((extraction.keep if entry.arch.key in kept else extraction.make)(entry))
    return subnets, kept


class _Extraction:
    """The shared inputs of extractions."""

    def __init__(self, run: RunDir, searched: SearchedRun) -> None:
        self.run, self.prices, self.config = run, searched.prices, run.config()

    @cached_property
    def prepared(self) -> Prepared:
        """The run's data; loaded only if something is extracted."""
        return prepare(self.run)

    @cached_property
    def net(self) -> Supernet:
        """The supernet; loaded only if something is extracted."""
        return load_supernet(self.run, self.prepared.space)

    def make(self, entry: FrontEntry) -> Subnet:
        """Extract an architecture, check and evaluate it, and write its folder."""
        arch, prepared, training = entry.arch, self.prepared, self.config.training
        model = extract(self.net, arch)
        difference = check_same(self.net, model, prepared.valid, training.batch_size)
        metrics = score(model, arch, tasks.get(self.config.task), prepared, training, full=True)
        settings = {"space": prepared.space.name, "supernet_steps": self._steps(), "difference_to_supernet": difference}
        costs, shares = self._prices(entry)
        facts = SubnetFacts(
            key=arch.key, task=self.config.task, run=str(self.run.path), data=self.config.data,
            labels=prepared.labels, specials=dict(prepared.specials),
            scale=prepared.scale, costs=costs, unmeasured_share=shares,
            made=(HistoryStep(stage="extract", settings=settings, metrics=finite(metrics)),))
        return write_subnet(self._folder(arch), model, prepared.tokenizer, facts)

    def keep(self, entry: FrontEntry) -> Subnet:
        """An existing subnet with current costs. Raises InputError if it is damaged."""
        folder = self._folder(entry.arch)
        try:
            subnet = Subnet.open(str(folder))
            subnet.model()
        except InputError as error:
            raise InputError(str(folder), f"exists but cannot be used ({error.faults[0].reason})",
                             "delete it to extract it again") from None
        facts, (costs, shares) = subnet.facts, self._prices(entry)
        costs, shares = {**facts.costs, **costs}, {**facts.unmeasured_share, **shares}
        if (costs, shares) == (facts.costs, facts.unmeasured_share):
            return subnet
        return subnet.write_facts(facts.model_copy(update={"costs": costs, "unmeasured_share": shares}))

    def _prices(self, entry: FrontEntry) -> tuple[dict[str, float], dict[str, float]]:
        """All costs of an architecture, and their unmeasured shares: from the search, or current ones."""
        return ({**entry.costs, **self.prices.all_of(entry.arch)},
                {**entry.unmeasured, **self.prices.unmeasured_of(entry.arch)})

    def _folder(self, arch: Architecture) -> Path:
        return self.run.path / SUBNETS / arch.key[:12]

    def _steps(self) -> int:
        """The training steps of the supernet; with early stopping fewer than in the recipe."""
        return newest_step(self.run.path / "checkpoints") or self.config.training.steps


def check_same(net: Supernet, model: Transformer, split: Split, size: int) -> float:
    """The largest difference between the outputs of a supernet and an extracted model on real batches.

    Raises:
        CheckFailedError: it is more than `TOLERANCE`, or not finite.
    """
    largest = 0.0
    with torch.no_grad():
        for batch in islice(_batches(net, split, size), CHECKED):
            both = (run_model(either, model.arch, batch) for either in (net, model))
            difference = torch.sub(*both).abs().max().item()
            if not difference <= TOLERANCE:
                raise CheckFailedError(model.arch.key[:12], f"its outputs differ from the supernet's by "
                                                            f"{difference:g}, more than {TOLERANCE:g}; it is not "
                                                            "written")
            largest = max(largest, difference)
    return largest


def _batches(net: Supernet, split: Split, size: int) -> Iterator[Batch]:
    device = next(net.parameters()).device
    return (batch.to(device) for batch in split.in_order(size, CHECKED * size))
