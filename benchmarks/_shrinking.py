"""The stages of `shrink_pretrained.py`: each is stored in the working folder and skipped if it is there."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hardware_profiles.profile import stored_names
from nas import api
from nas.core.evaluation import load_supernet, prepare
from nas.core.measures import parse_measure
from nas.core.pricing import Prices, load_devices
from nas.core.run_dir import RunDir
from nas.core.subnet import HistoryStep, Subnet, SubnetFacts, write_subnet
from nas.costs import count
from nas.tasks.base import Prepared
from supernet import Transformer, extract
from supernet.inference import predict
from supernet.train.recipe import Recipe

MODELS = "models"
IMPORTED, SPACE, SUPERNET, SCRATCH = "imported", "space.yaml", "supernet", "scratch"
KEPT = ("width", "rank")
"""Dims that the space leaves alone: without long training a narrower residual stream costs most at equal multiply-adds
(benchmarks/results/ordered_prefixes.csv)."""


@dataclass(frozen=True)
class ExampleLosses:
    """The loss of each example, and whether the answer was right."""

    losses: Tensor
    right: Tensor

    @property
    def loss(self) -> float:
        return float(self.losses.mean())

    @property
    def accuracy(self) -> float:
        return float(self.right.mean())


def compare(mine: ExampleLosses, other: ExampleLosses) -> dict[str, float]:
    """The mean differences on the same examples, and their standard errors."""
    found = {}
    for name, difference in {"accuracy": mine.right - other.right, "loss": mine.losses - other.losses}.items():
        found[f"{name}_difference"] = round(float(difference.mean()), 4)
        found[f"{name}_difference_error"] = round(float(difference.std()) / math.sqrt(len(difference)), 4)
    return found


@torch.no_grad()
def example_losses(model: Transformer, prepared: Prepared) -> ExampleLosses:
    """The losses on the test split, in its order."""
    losses, right = [], []
    for batch in prepared.test.in_order(32):
        logits = predict(model.eval(), model.arch, batch, Recipe(precision="fp32"))
        losses.append(torch.nn.functional.cross_entropy(logits, batch.labels, reduction="none"))
        right.append(logits.argmax(dim=-1) == batch.labels)
    return ExampleLosses(torch.cat(losses).double(), torch.cat(right).double())


@dataclass
class Experiment:
    """The stages of one experiment, run in its working folder."""

    model: Path
    data: Path
    options: argparse.Namespace
    known: dict[str, ExampleLosses] = field(default_factory=dict)

    @property
    def context(self) -> int:
        return int(self.options.context)

    @property
    def source(self) -> dict[str, str]:
        """The data options; a validation split is taken off the training examples."""
        return {"train": str(self.data / "train.tsv"), "test": str(self.data / "dev.tsv"), "text": "sentence",
                "label": "label"}

    def settings(self, steps: int, seed: int = 0) -> dict[str, Any]:
        """The training settings that all methods share."""
        return {"steps": steps, "lr": self.options.lr, "warmup": max(steps // 15, 1), "seed": seed,
                "batch_size": self.options.batch_size, "precision": self.options.precision, "evaluate_every": 0,
                "checkpoint_every": 100, "log_every": 50}

    # Models, each in its folder.

    def whole(self) -> None:
        """The fine-tuned model."""
        if not Path(IMPORTED).exists():
            api.import_model(self.model, IMPORTED, context=self.context)
        settings = self.settings(self.options.whole_steps)
        self.make("whole", lambda out: api.retrain(IMPORTED, settings, out=out, run="whole", task="classification",
                                                   data=self.source))

    def space(self) -> None:
        """The search space around the fine-tuned model, and the latencies of its units on the device."""
        if not Path(SPACE).exists():
            api.space_from(f"{MODELS}/whole", SPACE, keep=KEPT, least=self.options.least,
                           choices=self.options.choices)
        if self.options.device and self.options.device not in stored_names():
            api.profile(self.options.device, SPACE, self.options.profile_budget)

    def smaller(self, method: str, share: Fraction, seed: int) -> tuple[str, int]:
        """A retrained model within a share of the cost, and all steps that it is charged with."""
        steps = int(self.options.steps)
        if method == "scratch":
            return self._scratch(steps, seed), steps
        limit = self.limit(share)
        start = f"start-{method}-{share.numerator}of{share.denominator}"
        mine = steps
        if method == "search":
            self._searched()
            mine -= self.supernet_steps
            self.make(start, lambda out: _copied(api.extract(SUPERNET, max=[limit])[0], out))
        else:
            self.make(start, lambda out: api.prune_to(f"{MODELS}/whole", [limit], method, out=out))
        name = f"{start.removeprefix('start-')}-seed{seed}"
        init = self.options.init if method == "search" else "inherit"
        self.make(name, lambda out: api.retrain(f"{MODELS}/{start}", self.settings(mine, seed), out=out, init=init,
                                                teacher=f"{MODELS}/whole", distill="logits"))
        return name, steps

    @property
    def supernet_steps(self) -> int:
        return round(self.options.steps * self.options.supernet_share)

    def _searched(self) -> None:
        """The supernet and its search; both resume by themselves."""
        with self.timed(SUPERNET):
            training = {**self.settings(self.supernet_steps), "strategy": "single", "order_score": "taylor"}
            api.train(SPACE, None, SUPERNET, training=training, init=f"{MODELS}/whole", check=False)
            most = max(map(Fraction, self.options.budgets.split(",")))
            kept = RunDir.open(SUPERNET).path / "search.yaml"
            settings = {"trials": self.options.trials, "objectives": ["loss", self.measure], "limit": 512,
                        "devices": [self.options.device] if self.options.device else [], "max": [self.limit(most)]}
            api.search(SUPERNET, {} if kept.exists() else settings)

    def _scratch(self, steps: int, seed: int) -> str:
        """The largest of encoder-small, trained alone."""
        run = f"{SCRATCH}-seed{seed}"

        def train(out: str) -> None:
            own = {name: value for name, value in self.settings(steps, seed).items() if name not in ("lr", "warmup")}
            made = api.train("encoder-small", "classification", run, self.source, {**own, "strategy": "largest"},
                             check=False)
            prepared = prepare(made)
            model = extract(load_supernet(made, prepared.space), prepared.space.largest())
            facts = SubnetFacts(key=model.arch.key, task="classification", run=str(made.path), data=made.config().data,
                                labels=prepared.labels, made=(HistoryStep(stage="extract"),))
            write_subnet(Path(out), model, prepared.tokenizer, facts)

        return self.make(run, train)

    def make(self, name: str, stage: Callable[[str], object]) -> str:
        """Run a stage that writes a model, unless the model is there."""
        if not (Path(MODELS) / name).exists():
            with self.timed(name):
                stage(f"{MODELS}/{name}")
        return name

    # Costs and figures.

    @property
    def measure(self) -> str:
        return f"latency:{self.options.device}" if self.options.device else "macs"

    def limit(self, share: Fraction) -> str:
        """A share of the cost of the whole model as a limit."""
        return f"{self.measure}={float(share) * self.cost():.6g}{'ms' if self.options.device else ''}"

    def cost(self) -> float:
        """The cost of the whole model."""
        found = self.latency("whole") if self.options.device else count(self.opened("whole").arch, self.context).macs
        assert found is not None
        return found

    def latency(self, name: str) -> float | None:
        """The latency on the device in milliseconds by its profile; None for a model outside of the profiled space."""
        if not self.options.device or name.startswith(SCRATCH):
            return None
        prices = Prices(load_devices([self.options.device]), self.context)
        return float(prices.values([parse_measure(self.measure, {})], [self.opened(name).arch])[0, 0])

    def opened(self, name: str) -> Subnet:
        return Subnet.open(f"{MODELS}/{name}")

    def losses(self, name: str) -> ExampleLosses:
        """The losses of a model on the test split."""
        if name not in self.known:
            subnet = self.opened(name)
            self.known[name] = example_losses(subnet.model(), data_of(subnet.facts.run))
        return self.known[name]

    def spent(self, name: str) -> float:
        """CPU seconds of a model's training, resumed ones included; of the supernet and its search for its picks."""
        own = _read_seconds(name)
        return own + _read_seconds(SUPERNET) if name.startswith("search-") else own

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the CPU seconds of a stage to what it has taken so far."""
        start = time.process_time()
        try:
            yield
        finally:
            path, seconds = _seconds(name), _read_seconds(name) + time.process_time() - start
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(seconds))


@cache
def data_of(run: str) -> Prepared:
    """The data of a run."""
    return prepare(RunDir.open(run))


def _copied(subnet: Subnet, out: str) -> Subnet:
    return write_subnet(Path(out), subnet.model(), subnet.tokenizer(), subnet.facts)


def _seconds(name: str) -> Path:
    return Path("seconds") / f"{name}.json"


def _read_seconds(name: str) -> float:
    return float(json.loads(_seconds(name).read_text())) if _seconds(name).exists() else 0.0
