"""`nas measure`: which subnets and devices, and what is printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from hardware_profiles.profile import PHASES
from hardware_profiles.stored import folder_of
from hardware_profiles.transports._base import Waiting
from nas.measure import Found, measure
from nas.profile_command import Bars, parse_time
from nas.profiling.timing import Stopped
from nas.progress import interruptible
from nas.run_dir import RunDir
from nas.subnet import Subnet, subnets_in
from nas.tables import table
from search_spaces import InputError
from supernet.pretrained import ARCHITECTURE


@dataclass(frozen=True)
class Outcome:
    """What was measured, and what the user has to do for devices that nothing here can reach."""

    found: Sequence[Found]
    waiting: Sequence[str]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"measured": [each.to_dict() for each in self.found], "waiting": list(self.waiting)}

    def table(self) -> RenderableType:
        """For a terminal."""
        made = table("subnet", "device", "phase", "predicted", "measured", "interval", "gap",
                     right=("predicted", "measured", "interval", "gap"))
        for each in self.found:
            expected = "-" if each.predicted_ms is None else f"{each.predicted_ms:.3f} ms"
            made.add_row(each.subnet.name, str(each.measure.device), each.measure.phase, expected,
                         f"{each.timing.ms:.3f} ms", f"{each.timing.low:.3f} to {each.timing.high:.3f}",
                         "-" if each.gap is None else f"{100 * each.gap:+.1f} %")
        slower = {str(each.measure.device): each.slowdown for each in self.found}
        notes = [f"{name}: known models take {ratio:.3f} times as long as when they were profiled, and times are "
                 "divided by that" for name, ratio in slower.items()]
        warned = [Text(f"warning: {each.warning}", style="yellow") for each in self.found if each.warning]
        return Group(*([made] if self.found else []), *map(Text, notes), *warned, *map(Text, self.waiting))


def run(names: Sequence[str], devices: Sequence[str], phase: str, budget: str, console: Console) -> Outcome | None:
    """Measure subnets on devices; None where it was stopped. Raises InputError."""
    if phase not in PHASES:
        raise InputError("--phase", f"{phase!r} is not allowed; allowed: {', '.join(PHASES)}")
    subnets, budget_s, bars = opened(names), parse_time(budget), Bars(console)
    found: list[Found] = []
    waiting: list[str] = []
    with interruptible() as stop, bars.bar:
        for device in {folder_of(device).resolve(): device for device in devices}.values():
            try:
                found += measure(subnets, device, phase, budget_s, bars, stop)
            except Waiting as turn:  # nothing is wrong: it is the user's turn
                waiting.append(str(turn))
            except Stopped:
                return None
    return Outcome(found, waiting)


def opened(names: Sequence[str]) -> list[Subnet]:
    """Subnets by name, and all those of runs, each once. Raises InputError."""
    found: dict[Path, Subnet] = {}
    for name in names:
        for subnet in _of_run(name) or [Subnet.open(name)]:
            found[subnet.path.resolve()] = subnet
    return list(found.values())


def _of_run(name: str) -> list[Subnet]:
    """The subnets of a run; none where the name is not a run's."""
    if (Path(name) / ARCHITECTURE).is_file():
        return []
    try:
        folder = RunDir.open(name).path
    except InputError:
        return []
    found = subnets_in(folder)
    if not found:
        raise InputError(str(folder), f"has no subnets yet; nas extract {name} writes some")
    return [Subnet.open(str(path)) for path in found]
