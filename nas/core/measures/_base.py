"""The declaration of a measure: how its values are computed, parsed and shown.

One file of this folder is one measure: a subclass of `MeasureKind` and an instance of it. Parsing, limits, tables, the
files of a search, the report and the model card read this declaration; none of them refers to a measure by name.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from hardware_profiles import LatencyModel
    from search_spaces import Architecture
    from supernet import Transformer

Floats = NDArray[np.float64]
TIME = {"us": 1e-3, "ms": 1.0, "s": 1e3}
COUNT = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}
BYTES = {"": 1.0, "b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}
PLAIN = {"": 1.0}
PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_NUMBER = re.compile(r"([-+]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*([a-zµ]*)", re.IGNORECASE)


@dataclass(frozen=True)
class PriceConditions:
    """The conditions of a price.

    Args:
        seq_len: tokens of the sequence.
        device: the profile of the device; None for a measure that belongs to none.
        phase: of a measure that has phases.
    """

    seq_len: int
    device: LatencyModel | None = None
    phase: str = "prefill"

    @property
    def profile(self) -> LatencyModel:
        """The device of a measure that belongs to one."""
        assert self.device is not None, "a measure of a device needs a device"
        return self.device


class MeasureKind(ABC):
    """A measure that can be an objective or a limit of a search.

    Args:
        name: as users write it; unique among all installed measures.
        label: its name in tables and plots.
        unit: unit of values as shown: `ms`, `B`, or empty for a count.
        units: suffixes that a user may write after a value, in lower case, and their factors.
        prefixes: whether k, M and G are shown for thousands, millions and billions.
        decimals: that a bound is rounded to.
        maximise: whether more is better.
        on_device: whether it belongs to a device, and is written `NAME:DEVICE`.
        phases: that it has on a device, written `NAME:DEVICE:PHASE`; prefill is the default and left out.
        of_length: whether the value depends on the sequence length.
        partly_unmeasured: whether a share of a value may be based on interpolated or estimated prices.
        place: sort order among the others; ties are sorted by name.
        summarised: whether tables of architectures always show it.
        superlative: title of the best architecture, such as `fastest`; empty: `lowest` (or `highest`) and the label.
    """

    name: str
    label: str
    unit: str = ""
    units: Mapping[str, float] = COUNT
    prefixes: bool = True
    decimals: int = 0
    maximise: bool = False
    on_device: bool = False
    phases: tuple[str, ...] = ()
    of_length: bool = False
    partly_unmeasured: bool = False
    place: int = 9
    summarised: bool = False
    superlative: str = ""

    @property
    def of_weights(self) -> bool:
        """Whether it depends on the weights of a model, not only on the architecture."""
        return type(self).price_model is not MeasureKind.price_model

    @abstractmethod
    def price(self, arch: Architecture, at: PriceConditions) -> float:
        """The value of an architecture. Raises InputError if a price is missing."""

    def price_many(self, archs: Sequence[Architecture], at: PriceConditions) -> Floats:
        """The values of architectures; overridden if batches are faster."""
        return np.array([self.price(arch, at) for arch in archs], dtype=np.float64)

    def price_model(self, model: Transformer, at: PriceConditions) -> float:
        """The value of a model with its weights; overridden if it depends on their storage."""
        return self.price(model.arch, at)

    def unmeasured_shares(self, archs: Sequence[Architecture], at: PriceConditions) -> Floats:
        """The share of each value that was not measured."""
        return np.zeros(len(archs))

    def why_not(self, arch: Architecture) -> str:
        """Why an architecture has no such value, in one sentence without its subject; empty if it has one."""
        return ""

    def known_phases(self, device: LatencyModel) -> Sequence[str]:
        """The phases that a profile has values of; of a measure without phases, `prefill` where it has any."""
        return ()

    def parse(self, text: str) -> float:
        """A value as users write it. Raises ValueError, which says what is allowed."""
        match = _NUMBER.fullmatch(text.strip().replace("µ", "u"))
        unit = match[2].lower() if match else ""
        known = match is not None and unit in self.units
        value = float(match[1].replace(",", "").replace("_", "")) * self.units[unit] if match and known else math.nan
        if not math.isfinite(value) or value < 0:
            raise ValueError(f"a number >= 0 with {', '.join(unit or 'no unit' for unit in self.units)}")
        return value

    def show(self, value: float) -> str:
        """A value as text."""
        for size, prefix in PREFIXES if self.prefixes else ():
            if value >= size:
                return f"{value / size:.4g} {prefix}{self.unit}"
        return f"{value:.{self.decimals}f} {self.unit}".rstrip()

    def show_bound(self, value: float, above: bool) -> str:
        """A value as text that is still met when used as a limit: rounded up, or down if `above`."""
        scale = 10.0**self.decimals
        whole = math.floor(value * scale) if above else math.ceil(value * scale)
        return f"{whole / scale:,.{self.decimals}f}{self.unit}"


class QualityKind(MeasureKind):
    """A metric of a task, which must be evaluated."""

    units, prefixes, decimals = PLAIN, False, 3

    def __init__(self, name: str) -> None:
        self.name = self.label = name

    def price(self, arch: Architecture, at: PriceConditions) -> float:
        raise TypeError(f"{self.name} must be evaluated")

    def show(self, value: float) -> str:
        return f"{value:.4f}"
