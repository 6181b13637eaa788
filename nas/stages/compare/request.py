"""The request of the stage `compare`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from hardware_profiles.device import PHASES
from search_spaces import InputError
from search_spaces.errors import Option

SPLITS = ("valid", "test")
DEFAULT_OUT = "comparison"


@dataclass(frozen=True)
class CompareRequest:
    """Models to compare, and how.

    Args:
        subnets: folders, or RUN/KEY, where KEY is a prefix of a key; imported models are subnets, too.
        device: profiled devices, or profiles' folders, on which the models are timed.
        phase: prefill or decode.
        budget_s: seconds of timing on each device.
        split: the data on which models with a run are evaluated.
        limit: size of a random sample of examples; all by default.
        seq_len: sequence length for multiply-adds; by default 128, or the shortest context.
        out: the folder of the table and the plot.

    Raises:
        InputError: a value is not allowed.
    """

    subnets: tuple[str, ...]
    device: tuple[str, ...] = ()
    phase: str = "prefill"
    budget_s: float = 60.0
    split: str = "valid"
    limit: int | None = None
    seq_len: int | None = None
    out: Path = Path(DEFAULT_OUT)

    def __post_init__(self) -> None:
        if not self.subnets:
            raise InputError("", "nothing to compare; give the folders of subnets, or RUN/KEY")
        if self.phase not in PHASES:
            raise InputError(Option("phase"), f"{self.phase!r} is not allowed; allowed: {', '.join(PHASES)}")
        if self.split not in SPLITS:
            raise InputError(Option("split"), f"{self.split!r} is not allowed; allowed: {', '.join(SPLITS)}")
        if not 0 < self.budget_s < math.inf:
            raise InputError(Option("budget"), f"{self.budget_s} is not allowed; allowed: more than 0 seconds")
        for name, value in (("limit", self.limit), ("seq_len", self.seq_len)):
            if value is not None and value < 1:
                raise InputError(Option(name), f"{value} is not allowed; allowed: 1 or more")
        if self.out.exists() and not self.out.is_dir():
            raise InputError(Option("out"), f"{self.out} is a file; name a folder")
