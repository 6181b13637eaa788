"""A report as one JSON document: everything that the page draws, already computed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from nas.core.commands import command_line
from nas.core.describing import in_a_line
from nas.core.marks import LEGEND, unmeasured_notes
from nas.core.measures import Measure, parse_measure
from nas.core.prediction_quality import BAND, ENOUGH
from nas.core.rankings import PREDICTOR_WORDS
from nas.stages.report import svg
from nas.stages.report.judged import WHOLE, in_short, in_words
from nas.stages.report.shown import Ranked, RunReport, Searched

DIGITS = 6
"""Significant digits of every number."""


def document(report: RunReport) -> dict[str, Any]:
    """Plain data, ready for JSON."""
    archs = report.architectures()
    widest = svg.widest_of(archs)
    made = {
        "run": report.run, "space": report.space, "task": report.task, "band": BAND, "enough": ENOUGH, "whole": WHOLE,
        "search": _search(report.searched, report.run) if report.searched else None,
        "archs": {key: {"line": in_a_line(arch), "svg": svg.draw(arch, report.slots, widest)}
                  for key, arch in archs.items()},
        "parts": {name: {key: [[each.place, each.role, each.kind, each.ms, each.source, each.style] for each in parts]
                         for key, parts in of.items()} for name, of in report.devices.parts.items()},
        "gaps": [asdict(gap) for gap in report.devices.gaps],
        "checks": report.devices.checks,
        "notes": report.devices.notes,
        "picked": [{"name": each.name, "key": each.arch.key, "steps": [vars(step) for step in each.steps],
                    "costs": each.costs, "measured": each.measured, "exports": each.exports, "trained": each.trained,
                    "unmeasured": each.unmeasured}
                   for each in report.picked],
        "measures": _measures(report),
        "curves": [{"training": curve.training, "model": curve.model, "metric": curve.metric, "steps": curve.steps,
                    "values": curve.values, "judged": in_words(curve.examples)}
                   for curve in report.curves if not curve.is_told_by_a_teacher],
        "ranked": _ranked(report.ranked) if report.ranked else None, "files": report.files,
    }
    found: dict[str, Any] = rounded(made)
    return found


def _search(found: Searched, run: str) -> dict[str, Any]:
    quality, cost = found.shown
    importance = found.importance
    return {
        "date": found.date, "shown": [quality.name, cost.name], "tiles": _tiles(found), "limits": found.limits,
        "judged": in_words(found.examples), "judged_in_short": in_short(found.examples),
        "qualities": [each.name for each in found.qualities], "costs": [each.name for each in found.costs],
        "objectives": [each.name for each in found.objectives],
        "points": [{"key": point.arch.key, "trial": point.trial, "metrics": point.metrics, "costs": point.costs,
                    "estimated": point.estimated, "allowed": point.allowed, "mark": point.mark,
                    "line": in_a_line(point.arch),
                    "unmeasured": {name: share for name, share in point.unmeasured.items() if share > 0}}
                   for point in found.points],
        "fronts": {f"{quality} {cost}": places for (quality, cost), places in found.fronts.items()},
        "unmeasured": _unmeasured(found, run),
        "hypervolume": found.hypervolume, "importance": asdict(importance) if importance else None,
    }


def _unmeasured(found: Searched, run: str) -> dict[str, str]:
    """By quality and cost, a note about a front with unmeasured latencies."""
    said = {}
    for quality, cost in ((quality, cost) for quality in found.qualities for cost in found.costs):
        shares = [point.unmeasured for point in found.front(quality, cost)]
        notes = [*map(command_line, unmeasured_notes(shares, [cost], f"runs/{run}", "on this front"))]
        if notes:
            said[f"{quality.name} {cost.name}"] = f"{LEGEND}; {notes[0]}."
    return said


def _tiles(found: Searched) -> list[tuple[str, str, str]]:
    """(title, value, note) of the summary tiles."""
    quality, cost = found.shown
    front, counts, judged = found.front(quality, cost), found.counts, in_short(found.examples)
    judged = judged and f", on {judged}"
    unfinished = f"{counts['estimated']:,} stopped early" if counts["estimated"] else f"{counts['failed']:,} failed"
    tiles = [("on the front", f"{len(front)}", f"of {counts['architectures']:,} architectures")]
    if front:
        best = (max if quality.maximise else min)(front, key=lambda point: point.value(quality))
        least = (max if cost.maximise else min)(front, key=lambda point: point.value(cost))
        tiles += [(f"best {quality.name}", best.show(quality), f"at {best.show(cost)}{judged}"),
                  (cost.superlative, least.show(cost), f"{quality.name} {least.show(quality)}{judged}")]
    return [*tiles, ("evaluated", f"{counts['evaluated']:,}", unfinished)]


def _measures(report: RunReport) -> dict[str, dict[str, Any]]:
    """All measures by name."""
    found = {name: Measure(name, maximise=more) for name, more in report.metrics.items()}
    names = [name for each in report.picked for name in (*each.costs, *each.measured)]
    names += [gap.measure for gap in report.devices.gaps]
    found |= {name: parse_measure(name, report.metrics) for name in names}
    found |= {each.name: each for each in report.searched.costs} if report.searched else {}
    return {name: {"label": each.label, "device": each.device, "phase": each.phase, "unit": each.declared.unit,
                   "prefixes": each.declared.prefixes, "of_weights": each.declared.of_weights,
                   "maximise": each.maximise, "quality": each.is_quality} for name, each in found.items()}


def _ranked(found: Ranked) -> dict[str, Any]:
    return {"rows": found.rows, "words": PREDICTOR_WORDS, **{name: found.figures[name] for name in ("overall", "band")},
            "noise": found.figures.get("noise"), "steps": found.figures.get("steps"),
            "supernet_steps": found.figures.get("supernet_steps")}


def rounded(value: Any) -> Any:
    """Numbers with few digits, none where they are not finite; tables and lists as JSON has them."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): rounded(inner) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [rounded(inner) for inner in value]
    return value
