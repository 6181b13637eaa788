"""What an architecture costs: counted, or looked up in the latency tables of all devices at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hardware_profiles import LatencyModel
from hardware_profiles.profile import PHASES
from nas.costs import count, count_params, unit_costs
from nas.search.measures import COUNTED, Measure
from search_spaces import Architecture, InputError
from search_spaces.units import SUBLAYERS

Floats = NDArray[np.float64]
ROLES = ("embedding", *SUBLAYERS, "norm", "head")


class Prices:
    """The costs of architectures; nothing is evaluated.

    Args:
        devices: their measured profiles, by the names the user gives them.
        seq_len: tokens of the sequence whose multiply-adds are counted.
    """

    def __init__(self, devices: Mapping[str, LatencyModel], seq_len: int) -> None:
        self.devices, self.seq_len = dict(devices), seq_len

    def values(self, measures: Sequence[Measure], archs: Sequence[Architecture]) -> Floats:
        """A row per architecture, a column per measure. Raises InputError where a price is missing."""
        columns = [self._column(measure, archs) for measure in measures]
        return np.stack(columns, axis=1) if columns else np.zeros((len(archs), 0))

    def _column(self, measure: Measure, archs: Sequence[Architecture]) -> Floats:
        if measure.device is None:
            if measure.kind == "params":
                return np.array([count_params(arch) for arch in archs], dtype=np.float64)
            return np.array([getattr(count(arch, self.seq_len), measure.kind) for arch in archs], dtype=np.float64)
        device = self.device(measure.device)
        if measure.kind == "memory":
            return np.array([device.predict_memory(arch) for arch in archs])
        return device.predict_many(archs, measure.phase)

    def by_role(self, arch: Architecture) -> list[float]:
        """Where its cost is: for each stack the parameters and multiply-adds of each role."""
        sums = {(stack, role): [0.0, 0.0] for stack in arch.stacks for role in ROLES}
        for cost in unit_costs(arch, self.seq_len):
            one = sums[cost.step.stack, cost.step.unit.role]
            one[0], one[1] = one[0] + cost.params, one[1] + cost.macs
        return [value for one in sums.values() for value in one]

    def device(self, name: str) -> LatencyModel:
        """The profile of a device. Raises InputError where the search has none of that name."""
        if name not in self.devices:
            known = ", ".join(self.devices) or "none"
            raise InputError(name, f"is no device of this search (its devices: {known}); add --device {name}")
        return self.devices[name]

    def measures(self) -> tuple[Measure, ...]:
        """Every cost that can be told: what is counted, and of each device what its profile knows."""
        found = [Measure(kind) for kind in COUNTED]
        for name, device in self.devices.items():
            found += [Measure("latency", name, phase) for phase in phases(device)]
            if device.stored.memory is not None:
                found.append(Measure("memory", name))
        return tuple(found)

    def all_of(self, arch: Architecture) -> dict[str, float]:
        """Every cost of one architecture by its name."""
        known = self.measures()
        return dict(zip((measure.name for measure in known), self.values(known, [arch])[0].tolist()))


def phases(device: LatencyModel) -> list[str]:
    """The phases that a profile has latencies of."""
    known = {phase for phase, _ in device.table} | set(device.stored.whole)
    return [phase for phase in PHASES if phase in known]


def load_devices(names: Sequence[str]) -> dict[str, LatencyModel]:
    """Profiles by the names of their devices or by their folders. Raises InputError for one that was not measured."""
    return {name: LatencyModel.load(name) for name in names}
