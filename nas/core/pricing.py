"""Costs of an architecture by every installed measure, on all devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import numpy as np

from hardware_profiles import LatencyModel
from nas.core.costs import unit_costs
from nas.core.measures import Measure, PriceConditions, parse_measure, registry
from nas.core.pareto import Floats
from search_spaces import Architecture, InputError
from search_spaces.errors import Option
from search_spaces.units import COST_ROLES
from supernet import Transformer


class Prices:
    """The costs of architectures; nothing is evaluated.

    Args:
        devices: their measured profiles, by the names the user gives them.
        seq_len: tokens of the sequence that is priced.
    """

    def __init__(self, devices: Mapping[str, LatencyModel], seq_len: int) -> None:
        self.devices, self.seq_len = dict(devices), seq_len

    def values(self, measures: Sequence[Measure], archs: Sequence[Architecture]) -> Floats:
        """A row per architecture, a column per measure. Raises InputError if an architecture has no price."""
        columns = [self._column(measure, archs) for measure in measures]
        return np.stack(columns, axis=1) if columns else np.zeros((len(archs), 0))

    def _column(self, measure: Measure, archs: Sequence[Architecture]) -> Floats:
        why = next(filter(None, map(measure.kind.why_not, archs)), "")
        if why:
            raise InputError(measure.name, why)
        return measure.kind.price_many(archs, self._at(measure))

    def _at(self, measure: Measure) -> PriceConditions:
        device = None if measure.device is None else self.device(measure.device)
        return PriceConditions(self.seq_len, device, measure.phase)

    def unmeasured_shares(self, measures: Sequence[Measure], archs: Sequence[Architecture]) -> Floats:
        """The share of each value that is based on interpolated or estimated prices."""
        columns = [measure.kind.unmeasured_shares(archs, self._at(measure)) for measure in measures]
        return np.stack(columns, axis=1) if columns else np.zeros((len(archs), 0))

    def unmeasured_of(self, arch: Architecture) -> dict[str, float]:
        """By the name of every measure that can be partly unmeasured, the share that is."""
        known = [measure for measure in self.measures(arch) if measure.kind.partly_unmeasured]
        return dict(zip((measure.name for measure in known), self.unmeasured_shares(known, [arch])[0].tolist()))

    def by_role(self, arch: Architecture) -> list[float]:
        """Cost breakdown: for each stack the parameters and multiply-adds of each role."""
        sums = {(stack, role): [0.0, 0.0] for stack in arch.stacks for role in COST_ROLES}
        for cost in unit_costs(arch, self.seq_len):
            one = sums[cost.step.stack, cost.step.unit.cost_role]
            one[0], one[1] = one[0] + cost.params, one[1] + cost.macs
        return [value for one in sums.values() for value in one]

    def device(self, name: str) -> LatencyModel:
        """The profile of a device. Raises InputError if the search has none of that name."""
        if name not in self.devices:
            known = ", ".join(self.devices) or "none"
            raise InputError(name, f"is not a device of this search (its devices: {known}); add {Option('device')} "
                                   f"{name}")
        return self.devices[name]

    def measures(self, arch: Architecture) -> tuple[Measure, ...]:
        """Every measure that an architecture has a price for: counted ones, and those of the profiles."""
        kinds = [kind for kind in registry().values() if not kind.why_not(arch)]
        measures = [Measure(kind.name, maximise=kind.maximise) for kind in kinds if not kind.on_device]
        for name, device in self.devices.items():
            measures += [Measure(kind.name, name, phase, kind.maximise) for kind in kinds if kind.on_device
                         for phase in kind.known_phases(device)]
        return tuple(measures)

    def all_of(self, arch: Architecture) -> dict[str, float]:
        """Every price of one architecture by the name of its measure."""
        known = self.measures(arch)
        return dict(zip((measure.name for measure in known), self.values(known, [arch])[0].tolist()))

    def all_of_model(self, model: Transformer) -> dict[str, float]:
        """The same of a model with its weights, which may be compressed."""
        return {measure.name: measure.kind.price_model(model, self._at(measure))
                for measure in self.measures(model.arch)}


def load_devices(names: Sequence[str]) -> dict[str, LatencyModel]:
    """Profiles by the names of their devices or by their folders. Raises InputError for one that was not measured."""
    return {name: LatencyModel.load(name) for name in names}


def device_costs(names: Iterable[str], arch: Architecture) -> tuple[dict[str, float], dict[str, float]]:
    """By the names of measures that belong to devices, the costs of an architecture and their unmeasured shares.

    A device that is not profiled here, or has no price for one of the architecture's units, is left out.
    """
    costs: dict[str, float] = {}
    shares: dict[str, float] = {}
    for measure in (parse_measure(name, {}) for name in names):
        if measure.device is not None:
            with suppress(InputError):
                prices = Prices(load_devices([measure.device]), arch.context)
                costs[measure.name] = float(prices.values([measure], [arch])[0, 0])
                if measure.kind.partly_unmeasured:
                    shares[measure.name] = float(prices.unmeasured_shares([measure], [arch])[0, 0])
    return costs, shares
