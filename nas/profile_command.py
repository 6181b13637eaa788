"""`nas profile`, `nas devices` and `nas latency`: what they do and what they print."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from hardware_profiles import runtimes, transports
from hardware_profiles.latency import LatencyModel
from hardware_profiles.profile import PHASES, Device, load_profile, shipped_devices
from hardware_profiles.provenance import ProfileWarning, changes
from hardware_profiles.stored import folder_of, named_folder, read_stored
from nas import resolve
from nas.bar import WorkBar
from nas.profiling.check import Check, check
from nas.profiling.stage import Profiled, Profiling
from nas.profiling.timing import Stopped, Watching
from nas.profiling.whole import Fitted, fit_whole
from nas.progress import interruptible
from nas.run_dir import locked
from nas.tables import table
from search_spaces import InputError, SearchSpace, load_space

UNITS = {"s": 1, "m": 60, "h": 3600}
BAR = 30
"""Columns of the longest bar of a breakdown."""


def parse_time(text: str, option: str = "--budget") -> float:
    """Seconds of a text such as 90s, 3m or 1.5h. Raises InputError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    seconds = float(found[1]) * UNITS[found[2] or "s"] if found else 0.0
    if seconds <= 0:
        raise InputError(option, f"{text!r} is not allowed; allowed: a time such as 90s, 3m or 1h")
    return seconds


class Bars(Watching):
    """Shows compiling and timing as bars with the time left."""

    def __init__(self, console: Console) -> None:
        self.bar = WorkBar(console, counts=False)
        self.task: Any = None

    def _begin(self, what: str, total: float, figures: str) -> None:
        self.task = self.bar.add(what, total, figures=figures)

    def compiling(self, total: int) -> None:
        """A new bar."""
        self._begin("preparing", total, f"{total} workloads")

    def compiled(self) -> None:
        """Move on."""
        self.bar.move(self.task)

    def timing(self, budget_s: float, workloads: int) -> None:
        """A new bar."""
        self._begin("timing", budget_s, f"{workloads} workloads")

    def timed(self, spent_s: float) -> None:
        """Move on."""
        self.bar.move_to(self.task, spent_s)

    def timing_ended(self) -> None:
        """Complete the bar: where all intervals are tight, that is before the time is up."""
        self.bar.finish(self.task)


@dataclass(frozen=True)
class Outcome:
    """What `nas profile` did: profiled phases, checked them, or fitted them on whole models."""

    found: Sequence[Profiled] | Sequence[Check] | Sequence[Fitted]
    folder: Path
    estimated: bool

    @property
    def good(self) -> bool:
        """False where a check says that predictions are off."""
        return all(each.good for each in self.found if isinstance(each, Check))

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        rows = [each.to_dict() if isinstance(each, Check) else asdict(each) for each in self.found]
        return {"profile": str(self.folder), "estimated": self.estimated, "phases": rows}

    def table(self) -> RenderableType:
        """For a terminal."""
        if isinstance(self.found[0], Check):
            return check_table([each for each in self.found if isinstance(each, Check)])
        if isinstance(self.found[0], Fitted):
            lines = [f"{each.phase}: fitted on {each.n} whole models, error of those left out {100 * each.error:.1f} %"
                     for each in self.found if isinstance(each, Fitted)]
            return Text("\n".join([*lines, f"profile: {self.folder}"]))
        return profiled_table([each for each in self.found if isinstance(each, Profiled)], self.folder, self.estimated)


def profile(device_name: str, space_name: str | None, budget: str, out: str | None, phases: list[str],
            n_check: int | None, measurements: str | None, console: Console) -> Outcome | None:
    """Profile a device, check a profile, or fit one on a file; None where it was stopped. Raises InputError."""
    device, budget_s = load_profile(device_name), parse_time(budget)
    folder = Path(out) if out else named_folder(device.name)
    if n_check is not None and measurements is not None:
        raise InputError("--from", "does not go with --check; fit first, then check")
    if n_check is not None and not (folder / "profile.yaml").is_file():
        raise InputError(str(folder), f"is no profile yet; run nas profile {device_name} --space SPACE first")
    space_name = space_name or _last_space(folder)
    space = _space(space_name)
    wanted = _phases(device, space, phases)
    bars = Bars(console)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, "profile"), interruptible() as stop, bars.bar:
        profiling = Profiling(device, space, folder, bars, stop, space_name)
        found: Sequence[Profiled] | Sequence[Check] | Sequence[Fitted]
        try:
            if measurements is not None:
                found = [fit_whole(profiling, Path(measurements), phase) for phase in wanted[:1]]
            elif n_check is not None:
                found = [check(profiling, phase, n_check, budget_s / len(wanted)) for phase in wanted]
            else:
                found = profiling.run(wanted, budget_s)
        except Stopped:
            return None
    return Outcome(found, folder, device.estimated)


def is_profiled(device_name: str, space_name: str) -> bool:
    """Whether a device's own profile prices a space in all its phases, so that nothing is left to measure."""
    device, space = load_profile(device_name), _space(space_name)
    if not (named_folder(device.name) / "profile.yaml").is_file():
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProfileWarning)  # told when it is used
        model = LatencyModel.load(str(named_folder(device.name)))
    known = model.stored.by_space.get(space.name, {})
    try:
        for phase in _phases(device, space, []):
            model.predict_many([space.smallest(), space.largest()], phase)
            if phase not in known:
                return False
    except InputError:
        return False
    return model.stored.memory is not None or not device.timing.memory


def _space(name: str) -> SearchSpace:
    """A space by its name or file, or that of a run, whose vocabulary and classes fit the run's data."""
    if not (Path(name) / "config.yaml").is_file():
        return load_space(name)
    from nas import train
    from nas.run_dir import RunDir

    return train.prepare(RunDir.open(str(Path(name).absolute()))).space


def _last_space(folder: Path) -> str:
    """The space that was profiled last."""
    known = read_stored(folder).spaces if (folder / "profile.yaml").is_file() else ()
    if not known:
        raise InputError("--space", "is needed: whose architectures are priced? nas spaces lists those shipped")
    return known[-1]


def _phases(device: Device, space: SearchSpace, asked: list[str]) -> list[str]:
    for phase in asked:
        if phase not in PHASES:
            raise InputError("--phase", f"{phase!r} is not allowed; allowed: {', '.join(PHASES)}")
    if "decode" in asked and space.family == "encoder":
        raise InputError("--phase", f"decode: the space {space.name} holds encoders, which do not decode")
    wanted = asked or [phase for phase in device.phases if phase == "prefill" or space.family != "encoder"]
    if not wanted:
        raise InputError(device.name, f"its file asks for decode only, and the space {space.name} holds encoders")
    return list(dict.fromkeys(wanted))


def profiled_table(found: list[Profiled], folder: Path, estimated: bool) -> RenderableType:
    """What a profiling gave."""
    made = table("phase", "units", "measured", "known before", "interpolated", "preparing", "timing", "error left",
                 right=("units", "measured", "known before", "interpolated", "preparing", "timing", "error left"))
    for row in found:
        rest = 0 if estimated else row.n_units - row.n_measured - row.n_reused
        made.add_row(row.phase, str(row.n_units), str(row.n_measured), str(row.n_reused), str(rest),
                     f"{row.compiling_s:.0f} s", f"{row.timing_s:.0f} s", f"{100 * row.error:.1f} %")
    notes = [Text(f"profile: {folder}")]
    if estimated:
        notes.insert(0, Text("estimated from a specification: nothing was measured", style="yellow"))
    shares = [row.not_delegated for row in found if row.not_delegated is not None]
    if shares:
        notes.append(Text(f"work that was not delegated: {100 * sum(shares) / len(shares):.1f} %"))
    return Group(made, *notes)


def check_table(checks: list[Check]) -> RenderableType:
    """How true predictions are, beside cruder ones and the noise."""
    parts: list[RenderableType] = []
    for found in checks:
        made = table(found.phase, "error", "within 10 %", "tau", "tau in one depth",
                     right=("error", "within 10 %", "tau", "tau in one depth"))
        for name, quality in (("this profile", found.predicted), (found.naive_is, found.naive),
                              ("in proportion to MACs", found.macs)):
            made.add_row(name, f"{100 * quality.mape:.1f} %", f"{100 * quality.within:.0f} %", _number(quality.tau),
                         _number(quality.tau_within_depth))
        made.add_row("measured twice", f"{100 * found.noise_floor:.1f} %", "", "", "")
        parts += [made, Text(f"{found.n} whole models, {found.overlap} of them seen when calibrating; "
                             f"{100 * found.inside_interval:.0f} % inside their interval"),
                  Text(f"known models take {found.slowdown:.3f} times as long as when they were profiled: times are "
                       f"divided by that; as timed, the error is {100 * found.as_timed.mape:.1f} %")]
    return Group(*parts)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def devices_data() -> list[dict[str, Any]]:
    """The shipped devices, and whether each can be used here."""
    rows = []
    for name in shipped_devices():
        device = load_profile(name)
        why = why_not(device)
        measured = not device.estimated and (folder_of(name) / "profile.yaml").is_file()
        rows.append({"name": name, "kind": device.kind, "runtime": device.runtime, "precision": device.precision,
                     "threads": device.threads, "transport": device.transport["kind"], "estimated": device.estimated,
                     "available": not why, "why_not": why, "measured": measured, "description": device.description})
    return rows


def why_not(device: Device) -> str:
    """Why a device cannot be used here; empty where it can, or need not be because it is estimated."""
    return "" if device.estimated else runtimes.get(device.runtime).missing() or _unreachable(device)


def _unreachable(device: Device) -> str:
    """Why a device cannot be reached. Devices far away are not asked: that takes time."""
    kind = device.transport["kind"]
    transport = transports.get(kind)
    missing = getattr(transport, "missing", lambda settings: None)
    settings = {name: value for name, value in device.transport.items() if name != "kind"}
    return missing(transport.Settings(**settings)) or ""


def devices_table(rows: list[dict[str, Any]]) -> Table:
    """The shipped devices for a terminal."""
    made = table("device", "kind", "runtime", "precision", "by", "here", "what it is")
    for row in rows:
        here = "measured" if row["measured"] else "estimated" if row["estimated"] else "available"
        says = Text(row["why_not"], style="yellow") if row["why_not"] else Text(here, style="green")
        made.add_row(row["name"], row["kind"], row["runtime"], row["precision"], row["transport"], says,
                     row["description"])
    return made


def latency_data(profile_name: str, arch_name: str, phase: str, sample: int | None) -> dict[str, Any]:
    """What an architecture takes on a device, part by part. Raises InputError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProfileWarning)  # they are part of the answer
        model = LatencyModel.load(profile_name)
    named = resolve.pick(resolve.resolve(arch_name), sample, False, False)[0]
    low, high = model.interval(named.arch, phase)
    data: dict[str, Any] = {"device": model.stored.device.name, "architecture": named.arch.key, "phase": phase,
                            "ms": model.predict(named.arch, phase), "low": low, "high": high,
                            "estimated": model.estimated, "conditions": model.stored.conditions.model_dump(),
                            "warnings": changes(model.stored)}
    if model.stored.memory is not None:
        data["peak_bytes"] = model.predict_memory(named.arch)
    if phase not in model.stored.whole:
        data["overhead_ms"] = model.calibration(phase, named.arch).overhead_ms
        data["parts"] = [{"layer": part.step.layer, "path": part.step.path, "unit": str(part.step.unit),
                          "ms": part.ms, "source": part.source} for part in model.breakdown(named.arch, phase)]
    return data


def latency_table(data: dict[str, Any], breakdown: bool) -> RenderableType:
    """A latency for a terminal; with a bar for each part where asked."""
    word = " estimated from a specification," if data["estimated"] else ""
    at = data["conditions"]
    where = f"{at['length']} tokens" if data["phase"] == "prefill" else f"one token after {at['past']}"
    head = Text(f"{data['ms']:.3f} ms on {data['device']},{word} in [{data['low']:.3f}, {data['high']:.3f}]; "
                f"{data['phase']}, {where}, batch {at['batch']}")
    notes: list[RenderableType] = [Text(f"warning: {each}", style="yellow") for each in data["warnings"]]
    if "peak_bytes" in data:
        notes.append(Text(f"peak memory {data['peak_bytes'] / 1e6:.1f} MB"))
    if not breakdown or "parts" not in data:
        return Group(head, *notes)
    made = table("where", "unit", "ms", "share", "", right=("ms", "share"))
    longest = max(part["ms"] for part in data["parts"]) or 1.0
    for part in [*data["parts"], {"path": "overhead", "unit": "", "ms": data["overhead_ms"], "source": ""}]:
        bar = "█" * round(BAR * min(part["ms"] / longest, 1.0))
        mark = "" if part["source"] in ("measured", "") else f" {part['source']}"
        made.add_row(part["path"], part["unit"], f"{part['ms']:.3f}", f"{100 * part['ms'] / data['ms']:.0f} %",
                     f"{bar}{mark}")
    return Group(head, made, *notes)

