"""The request of the stage `measure`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hardware_profiles.device import PHASES
from search_spaces import InputError
from search_spaces.errors import Option


@dataclass(frozen=True)
class MeasureRequest:
    """Time subnets on devices.

    Args:
        subnets: folders, RUN/KEY, where KEY is a prefix of a key, or runs, which mean all their subnets.
        device: profiled devices, or profiles' folders.
        budget_s: seconds of timing on each device.
    """

    subnets: tuple[str, ...]
    device: tuple[str, ...]
    phase: str = "prefill"
    budget_s: float = 60.0

    def __post_init__(self) -> None:
        if self.phase not in PHASES:
            raise InputError(Option("phase"), f"{self.phase!r} is not allowed; allowed: {', '.join(PHASES)}")
        if not 0 < self.budget_s < math.inf:
            raise InputError(Option("budget"), f"{self.budget_s} is not allowed; allowed: more than 0 seconds")
