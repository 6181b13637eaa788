"""The work of a unit in one call, independent of the device: multiply-adds, bytes, kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from hardware_profiles.profile import Conditions
from hardware_profiles.table import UnitWork
from nas.core.macs import module_macs
from nas.core.timing.workloads import Workload
from search_spaces.units import Unit

_LOOK_UPS = (torch.ops.aten.embedding.default, torch.ops.aten.index_select.default)


class _Traffic(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operators that compute something, and the bytes they read and write."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kernels, self.moved_bytes = 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not getattr(func, "is_view", False) and torch.Tag.nondeterministic_seeded not in func.tags:
            self.kernels += 1
            read = args[1:] if func in _LOOK_UPS else args  # only looked-up rows of a table
            self.moved_bytes += sum(tensor.numel() * tensor.element_size() for tensor in _tensors((read, out)))
        return out


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    """The tensors among arguments or results, also in lists."""
    if isinstance(values, (list, tuple)):
        yield from (tensor for value in values for tensor in _tensors(value))
    elif isinstance(values, torch.Tensor):
        yield values


def work_of(workload: Workload, conditions: Conditions) -> UnitWork:
    """The work of one call of a workload. Weights of a tied head count as the embedding's.

    Raises:
        InputError: it uses an operator without a counting rule.
    """
    module, inputs = workload.build(conditions)
    macs = module_macs(module, inputs, str(workload))
    with torch.no_grad(), _Traffic() as traffic:
        module(*inputs)
    own = [parameter for name, parameter in module.named_parameters() if not name.startswith("tied.")]
    weights = sum(parameter.numel() * parameter.element_size() for parameter in own)
    return UnitWork(macs, weights, traffic.moved_bytes, traffic.kernels)


def unit_works(units: Iterable[Unit], phase: str, conditions: Conditions) -> dict[Unit, UnitWork]:
    """What each unit does."""
    return {unit: _unit_work(unit, phase, conditions) for unit in units}


@lru_cache(maxsize=20_000)
def _unit_work(unit: Unit, phase: str, conditions: Conditions) -> UnitWork:
    """As `work_of`. Cached: tracing a unit takes longer than timing it, and every profile of a space has the same."""
    return work_of(Workload(phase, unit), conditions)
