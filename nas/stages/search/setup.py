"""The fixed inputs of a search: data, space, objectives, limits and prices."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from nas import tasks
from nas.core.evaluation import check_trained, load_supernet, pick_device, prepare
from nas.core.rankings import read_trained
from nas.core.run_dir import RunDir, digest
from nas.core.run_prices import load_prices, profile_digest, profile_input
from nas.core.search_config import SearchConfig
from nas.stages.search.evaluator import Evaluator, batches_of, fast_size
from search_spaces import Architecture


class SearchSetup:
    """A run, and the settings of its search with everything that they name.

    Args:
        config: as given; the stored one also has digests of all inputs.

    Raises:
        InputError: the run is not trained, a device is not profiled, or a measure or limit is wrong.
    """

    def __init__(self, run: RunDir, config: SearchConfig) -> None:
        check_trained(run)
        self.run, self.task = run, tasks.get(run.config().task)
        self.prepared = prepare(run)
        self.space = self.prepared.space
        self.objectives, self.limits = config.measures(self.task), config.limits(self.task)
        self.cost_objectives = [measure for measure in self.objectives if not measure.is_quality]
        """The objectives that are looked up."""
        self.prices = load_prices(config.all_devices(self.task), self.space, run)
        device = pick_device(run.config().training.device)
        self.batch_size = config.batch_size or fast_size(device, self.space.context)
        self.config = config.model_copy(update={"batch_size": self.batch_size, "inputs": self._inputs(config)})
        self._costs: dict[str, dict[str, float]] = {}

    def _inputs(self, config: SearchConfig) -> dict[str, str]:
        """Digests of everything that trials depend on besides the config."""
        profiles = {profile_input(name): profile_digest(name) or "" for name in config.all_devices(self.task)}
        return {"supernet.safetensors": digest(self.run.weights_path), "the data": self.prepared.fingerprint,
                **profiles, **self._trained(config)}

    def _trained(self, config: SearchConfig) -> dict[str, str]:
        """The digest of the models trained from scratch that calibrate losses."""
        if config.calibrate is None:
            return {}
        losses = [(reference.arch.key, reference.loss) for reference in read_trained(RunDir.open(config.calibrate))]
        name = f"the set of models trained from scratch in {config.calibrate}"
        return {name: hashlib.sha256(repr(losses).encode()).hexdigest()}

    @property
    def full(self) -> bool:
        """Whether expensive metrics such as BLEU are needed."""
        wanted = {measure.name for measure in (*self.objectives, *(limit.measure for limit in self.limits))}
        return not wanted.isdisjoint(self.task.costly)

    @cached_property
    def label_counts(self) -> list[int]:
        """How many labels the batches of an evaluation have."""
        batches = batches_of(self.prepared, "valid", self.batch_size, self.config.limit)
        return [batch.n_labels for batch in batches]

    def conditions(self) -> dict[str, Any]:
        """Everything that an evaluation depends on but the architecture."""
        return {"weights_sha256": self.config.inputs["supernet.safetensors"], "data": self.prepared.fingerprint,
                "split": "valid", "full": self.full, "limit": self.config.limit, "batch_size": self.batch_size}

    def evaluator(self) -> Evaluator:
        """The evaluator in this process. Raises InputError if the supernet cannot be read."""
        net = load_supernet(self.run, self.space)
        return Evaluator(net, self.task, self.prepared, self.run.config().training, limit=self.config.limit,
                         size=self.batch_size, full=self.full)

    def costs(self, arch: Architecture) -> dict[str, float]:
        """Every cost of an architecture by its name."""
        known = self._costs.get(arch.key)
        if known is None:
            known = self._costs[arch.key] = self.prices.all_of(arch)
        return known

    def within_limits(self, arch: Architecture) -> bool:
        """Whether an architecture meets all limits on costs."""
        return all(excess <= 0 for excess in self.excesses(arch).values())

    def excesses(self, arch: Architecture, metrics: Mapping[str, float] | None = None) -> dict[str, float]:
        """How far an architecture is beyond each limit; of limits on quality those whose metric is given."""
        costs, metrics = self.costs(arch), metrics or {}
        values = [metrics.get(limit.measure.name) if limit.measure.is_quality else costs[limit.measure.name]
                  for limit in self.limits]
        return {str(limit): limit.excess(value) for limit, value in zip(self.limits, values) if value is not None}
