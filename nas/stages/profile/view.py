"""Shows profiles, checks and predicted latencies in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from nas.core.commands import command_line
from nas.core.measures import MARK
from nas.core.prediction_quality import GOOD, OFF
from nas.stages.profile.check import ProfileCheck
from nas.stages.profile.latency import PredictedLatency
from nas.stages.profile.profiling import PhaseProfile
from nas.stages.profile.run import ProfileResult
from nas.stages.profile.whole import WholeModelFit
from nas.terminal.plain_table import ForWidth
from nas.terminal.tables import ROOMY, table

BAR, SHORT_BAR = 30, 8
"""Columns of the longest bar of a breakdown, in a wide and in a narrow terminal."""


def profile_table(result: ProfileResult) -> RenderableType:
    """A table of the result of profiling, checking or fitting."""
    checks = [phase for phase in result.phases if isinstance(phase, ProfileCheck)]
    fits = [phase for phase in result.phases if isinstance(phase, WholeModelFit)]
    if checks:
        return Group(*(part for phase in checks for part in _check_parts(phase)))
    if fits:
        lines = [f"{phase.phase}: fitted on {phase.n} whole models, leave-one-out error {100 * phase.error:.1f} %"
                 for phase in fits]
        return Text("\n".join([*lines, f"profile: {result.folder}"]))
    return _phases_table([phase for phase in result.phases if isinstance(phase, PhaseProfile)], result)


def _phases_table(phases: Sequence[PhaseProfile], result: ProfileResult) -> RenderableType:
    numbers = ("units", "measured", "already known", "interpolated", "preparing", "timing", "residual error")
    rows = table("phase", *numbers, right=numbers)
    for phase in phases:
        rest = 0 if result.estimated else phase.n_units - phase.n_measured - phase.n_reused
        rows.add_row(phase.phase, str(phase.n_units), str(phase.n_measured), str(phase.n_reused), str(rest),
                     f"{phase.compiling_s:.0f} s", f"{phase.timing_s:.0f} s", f"{100 * phase.error:.1f} %")
    notes = [Text(f"profile: {result.folder}")]
    if result.estimated:
        notes.insert(0, Text("estimated from a specification: nothing was measured", style="yellow"))
    shares = [phase.not_delegated for phase in phases if phase.not_delegated is not None]
    if shares:
        notes.append(Text(f"work outside the delegate: {100 * sum(shares) / len(shares):.1f} %"))
    return Group(rows, *notes)


def _check_parts(check: ProfileCheck) -> list[RenderableType]:
    """The errors of a profile, beside cruder predictions and the noise."""
    numbers = ("error", "within 10 %", "tau", "tau within depth")
    rows = table(check.phase, *numbers, right=numbers)
    for name, quality in (("this profile", check.predicted), (check.naive_is, check.naive),
                          ("in proportion to MACs", check.macs)):
        rows.add_row(name, f"{100 * quality.mape:.1f} %", f"{100 * quality.within:.0f} %", _number(quality.tau),
                     _number(quality.tau_within_depth))
    rows.add_row("repeat noise", f"{100 * check.noise_floor:.1f} %", "", "", "")
    why = command_line(check.why())
    return [rows, Text(f"{check.n} whole models, {check.overlap} of them used for calibration; "
                       f"{100 * check.inside_interval:.0f} % of the measurements are inside the predicted interval"),
            Text(f"machine is {check.slowdown:.3f}x slower than at profiling time; measurements corrected; "
                 f"uncorrected error {100 * check.as_timed.mape:.1f} %"),
            Text(f"verdict: {check.verdict}{f' ({why})' if why else ''}",
                 style="green" if check.verdict == GOOD else "red" if check.verdict == OFF else "yellow")]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def latency_table(latency: PredictedLatency, breakdown: bool) -> RenderableType:
    """A predicted latency; with `breakdown` a bar for each part."""
    word = " estimated from a specification," if latency.estimated else ""
    at, (low, high) = latency.conditions, latency.interval
    where = f"{at['length']} tokens" if latency.phase == "prefill" else f"one token after {at['past']}"
    mark = MARK if latency.unmeasured_share else ""
    head = Text(f"{mark}{latency.ms:.3f} ms on {latency.device},{word} in [{low:.3f}, {high:.3f}]; {latency.phase}, "
                f"{where}, batch {at['batch']}")
    notes: list[RenderableType] = [Text(f"warning: {warning}", style="yellow") for warning in latency.warnings]
    if latency.measure_more is not None:
        notes.append(Text(f"{MARK} {latency.unmeasured_share:.0%} of it is based on interpolated units; to measure "
                          "more "
                          f"of them, run {command_line(latency.measure_more)}", style="yellow"))
    if latency.peak_bytes is not None:
        notes.append(Text(f"peak memory {latency.peak_bytes / 1e6:.1f} MB"))
    if not breakdown or not latency.parts:
        return Group(head, *notes)
    return Group(head, ForWidth(ROOMY, _parts_table(latency, BAR), _parts_table(latency, SHORT_BAR)), *notes)


def _parts_table(latency: PredictedLatency, columns: int) -> RenderableType:
    """A row with a bar for each part; the longest bar has `columns` columns."""
    rows = table("where", "unit", "ms", "share", "", right=("ms", "share"))
    longest = max(part["ms"] for part in latency.parts) or 1.0
    for part in [*latency.parts, {"path": "overhead", "unit": "", "ms": latency.overhead_ms, "source": ""}]:
        bar = "█" * round(columns * min(part["ms"] / longest, 1.0))
        mark = "" if part["source"] in ("measured", "") else f" {part['source']}"
        rows.add_row(part["path"], part["unit"], f"{part['ms']:.3f}", f"{100 * part['ms'] / latency.ms:.0f} %",
                     f"{bar}{mark}")
    return rows
