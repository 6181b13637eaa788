"""Shows measured latencies in a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from nas.core.commands import command_line
from nas.core.marks import LEGEND
from nas.core.measures import MARK
from nas.stages.measure.run import MeasureResult
from nas.terminal.tables import table


def measure_data(result: MeasureResult) -> dict[str, Any]:
    """The latencies for a program."""
    rows = [{**each.to_dict(), "warning": command_line(each.warning)} for each in result.measured]
    return {**result.to_dict(), "measured": rows}


def measure_table(result: MeasureResult) -> RenderableType:
    """Measured beside predicted latencies, and what to do where they differ."""
    rows = table("subnet", "device", "phase", "predicted", "measured", "interval", "gap",
                 right=("predicted", "measured", "interval", "gap"), keep=("subnet", "device"),
                 minor=("phase", "interval"))
    for each in result.measured:
        mark = MARK if each.unmeasured else ""
        expected = "-" if each.predicted_ms is None else f"{mark}{each.predicted_ms:.3f} ms"
        rows.add_row(each.subnet.name, str(each.measure.device), each.measure.phase, expected,
                     f"{each.timing.ms:.3f} ms", f"{each.timing.low:.3f} to {each.timing.high:.3f}",
                     "-" if each.gap is None else f"{100 * each.gap:+.1f} %")
    slower = {str(each.measure.device): each.slowdown for each in result.measured}
    legend = [LEGEND] if any(each.unmeasured for each in result.measured) else []
    notes = [f"{name}: machine is {ratio:.3f}x slower than at profiling time; measurements corrected"
             for name, ratio in slower.items()]
    warnings = [Text(f"warning: {command_line(each.warning)}", style="yellow") for each in result.measured
                if each.warning]
    return Group(*([rows] if result.measured else []), *map(Text, (*legend, *notes)), *warnings,
                 *map(Text, result.waiting))
