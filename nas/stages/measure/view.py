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
    """The latencies for JSON output."""
    rows = [{**subnet.to_dict(), "warning": command_line(subnet.warning)} for subnet in result.measured]
    return {**result.to_dict(), "measured": rows}


def measure_table(result: MeasureResult) -> RenderableType:
    """Measured beside predicted latencies, and what to do where they differ."""
    rows = table("subnet", "device", "phase", "predicted", "measured", "interval", "gap",
                 right=("predicted", "measured", "interval", "gap"), keep=("subnet", "device"),
                 minor=("phase", "interval"))
    for subnet in result.measured:
        mark = MARK if subnet.unmeasured else ""
        expected = "-" if subnet.predicted_ms is None else f"{mark}{subnet.predicted_ms:.3f} ms"
        rows.add_row(subnet.subnet.name, str(subnet.measure.device), subnet.measure.phase, expected,
                     f"{subnet.timing.ms:.3f} ms", f"{subnet.timing.low:.3f} to {subnet.timing.high:.3f}",
                     "-" if subnet.gap is None else f"{100 * subnet.gap:+.1f} %")
    slower = {str(subnet.measure.device): subnet.slowdown for subnet in result.measured}
    legend = [LEGEND] if any(subnet.unmeasured for subnet in result.measured) else []
    notes = [f"{name}: machine is {ratio:.3f}x slower than at profiling time; measurements corrected"
             for name, ratio in slower.items()]
    warnings = [Text(f"warning: {command_line(subnet.warning)}", style="yellow") for subnet in result.measured
                if subnet.warning]
    return Group(*([rows] if result.measured else []), *map(Text, (*legend, *notes)), *warnings,
                 *map(Text, result.waiting))
