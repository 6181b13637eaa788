"""Shows a search and its fronts in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from nas.core.describing import in_a_line
from nas.core.fronts import FrontEntry, ParetoFronts, objectives_for
from nas.core.marks import LEGEND, is_marked
from nas.core.measures import Measure, summarised
from nas.stages.search.feasibility import SAMPLES, Feasibility
from nas.stages.search.run import SearchResult
from nas.terminal.plain_table import FirstThatFits
from nas.terminal.tables import table


def search_table(result: SearchResult) -> RenderableType:
    """The fronts, or why there are none, and a summary of the trials."""
    if not result.fronts.entries:
        reached = [f"{limit}: the best value is {limit.measure.show(value)}"
                   for limit, value in result.best_reached().items()]
        return Text("\n".join(["no architecture within all limits was found", *reached]), style="yellow")
    parts: list[RenderableType] = [fronts_table(result.fronts)]
    if result.saved:
        parts.append(Text(f"early stopping saved {result.saved:.0%} of the evaluation work"))
    if result.repeated > result.done / 10:  # a few are normal
        parts.append(Text(f"{result.repeated:,} of {result.done:,} trials repeated a known architecture: few others "
                          "are within the limits"))
    return Group(*parts)


def fronts_table(fronts: ParetoFronts) -> RenderableType:
    """A table for each front."""
    parts: list[RenderableType] = []
    for device, entries in fronts.by_device().items():
        title = f"front on {device}" if device else "front"
        parts += [Text(f"{title}: {len(entries)} of {len(fronts.entries)} architectures", style="bold"),
                  _front_table(objectives_for(fronts.objectives, device), entries), Text("")]
    return Group(*parts[:-1])


def _front_table(objectives: Sequence[Measure], entries: Sequence[FrontEntry]) -> RenderableType:
    """A row per architecture; in a narrow terminal the layers are in a table of their own."""
    more = (measure for measure in summarised() if all(measure.name in entry.costs for entry in entries))
    columns = list(dict.fromkeys((*objectives, *more)))
    names = tuple(measure.name for measure in columns)
    wide, values, layers = table("key", *names, "layers", right=names), table("key", *names, right=names), \
        table("key", "layers")
    for entry in entries:
        key, cells, line = entry.arch.key[:12], [entry.show(measure) for measure in columns], in_a_line(entry.arch)
        wide.add_row(key, *cells, line)
        values.add_row(key, *cells)
        layers.add_row(key, line)
    fitting = FirstThatFits(wide, Group(values, layers))
    marked = is_marked([entry.unmeasured for entry in entries], columns)
    return Group(fitting, Text(LEGEND, style="yellow")) if marked else fitting


def feasibility_table(feasibility: Feasibility) -> RenderableType:
    """The range of costs in the space, and the share of architectures within the limits."""
    limited = bool(feasibility.limits)
    head = ("smallest found", "median", "largest found", "limit", *(["within it"] if limited else []))
    shown = table("cost", *head, right=head)
    for cost_range in feasibility.ranges:
        limits = [limit for limit in feasibility.limits if limit.measure == cost_range.measure]
        bounds = ", ".join(str(limit).removeprefix(f"{cost_range.measure.name} ") for limit in limits)
        show, (low, high) = cost_range.measure.show, cost_range.unmeasured
        within = [_share(cost_range.within) if limits else ""] if limited else []
        shown.add_row(cost_range.measure.name, show(cost_range.least, low), show(cost_range.median, max(low, high)),
                      show(cost_range.greatest, high), bounds, *within)
    marked = any(max(cost_range.unmeasured) > 0 for cost_range in feasibility.ranges)
    notes = [Text(LEGEND, style="yellow")] if marked else []
    if limited:
        notes.append(Text(f"{_share(feasibility.share)} of {SAMPLES} random architectures are within all limits"))
    return Group(shown, *notes)


def _share(value: float) -> str:
    return f"{value:.0%}" if value == 0 or value >= 0.01 else "less than 1%"
