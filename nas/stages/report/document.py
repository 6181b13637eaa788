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
from nas.stages.report.front_kinds import front_kinds
from nas.stages.report.judged import WHOLE, in_short, in_words
from nas.stages.report.shown import Ranked, RunReport, Searched

DIGITS = 6
"""Significant digits of every number."""


def document(report: RunReport) -> dict[str, Any]:
    """Plain data, ready for JSON."""
    archs = report.architectures()
    widest = svg.widest_of(archs)
    content = {
        "run": report.run, "space": report.space, "task": report.task, "band": BAND, "enough": ENOUGH, "whole": WHOLE,
        "search": _search(report.searched, report.run) if report.searched else None,
        "archs": {key: {"line": in_a_line(arch), "svg": svg.draw(arch, report.slots, widest)}
                  for key, arch in archs.items()},
        "parts": {name: {key: [[part.place, part.role, part.kind, part.ms, part.source, part.style] for part in parts]
                         for key, parts in of.items()} for name, of in report.devices.parts.items()},
        "gaps": [asdict(gap) for gap in report.devices.gaps],
        "checks": report.devices.checks,
        "notes": report.devices.notes,
        "picked": [{"name": part.name, "key": part.arch.key, "steps": [vars(step) for step in part.steps],
                    "costs": part.costs, "measured": part.measured, "exports": part.exports, "trained": part.trained,
                    "unmeasured": part.unmeasured}
                   for part in report.picked],
        "measures": _measures(report),
        "curves": [{"training": curve.training, "model": curve.model, "metric": curve.metric, "steps": curve.steps,
                    "values": curve.values, "judged": in_words(curve.examples)}
                   for curve in report.curves if not curve.is_distillation],
        "ranked": _ranked(report.ranked) if report.ranked else None, "files": report.files,
    }
    data: dict[str, Any] = rounded(content)
    return data


def _search(searched: Searched, run: str) -> dict[str, Any]:
    quality, cost = searched.shown
    importance = searched.importance
    return {
        "date": searched.date, "shown": [quality.name, cost.name], "tiles": _tiles(searched), "limits": searched.limits,
        "judged": in_words(searched.examples), "judged_in_short": in_short(searched.examples),
        "qualities": [measure.name for measure in searched.qualities],
        "costs": [measure.name for measure in searched.costs],
        "objectives": [measure.name for measure in searched.objectives],
        "points": [{"key": point.arch.key, "trial": point.trial, "metrics": point.metrics, "costs": point.costs,
                    "estimated": point.estimated, "allowed": point.allowed, "mark": point.mark,
                    "line": in_a_line(point.arch),
                    "unmeasured": {name: share for name, share in point.unmeasured.items() if share > 0}}
                   for point in searched.points],
        "fronts": {f"{quality} {cost}": places for (quality, cost), places in searched.fronts.items()},
        "kinds": {f"{quality.name} {cost.name}": [
            asdict(row) for row in front_kinds(searched.points, searched.front(quality, cost), quality, cost)]
            for quality in searched.qualities for cost in searched.costs},
        "unmeasured": _unmeasured(searched, run),
        "hypervolume": searched.hypervolume, "importance": asdict(importance) if importance else None,
    }


def _unmeasured(searched: Searched, run: str) -> dict[str, str]:
    """By quality and cost, a note about a front with unmeasured latencies."""
    notes_by_axes = {}
    for quality, cost in ((quality, cost) for quality in searched.qualities for cost in searched.costs):
        shares = [point.unmeasured for point in searched.front(quality, cost)]
        notes = [*map(command_line, unmeasured_notes(shares, [cost], f"runs/{run}", "on this front"))]
        if notes:
            notes_by_axes[f"{quality.name} {cost.name}"] = f"{LEGEND}; {notes[0]}."
    return notes_by_axes


def _tiles(searched: Searched) -> list[tuple[str, str, str]]:
    """(title, value, note) of the summary tiles."""
    quality, cost = searched.shown
    front, counts, judged = searched.front(quality, cost), searched.counts, in_short(searched.examples)
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
    measures = {name: Measure(name, maximise=more) for name, more in report.metrics.items()}
    names = [name for subnet in report.picked for name in (*subnet.costs, *subnet.measured)]
    names += [gap.measure for gap in report.devices.gaps]
    measures |= {name: parse_measure(name, report.metrics) for name in names}
    measures |= {measure.name: measure for measure in report.searched.costs} if report.searched else {}
    return {name: {"label": measure.label, "device": measure.device, "phase": measure.phase,
                   "unit": measure.kind.unit, "prefixes": measure.kind.prefixes,
                   "of_weights": measure.kind.of_weights, "maximise": measure.maximise,
                   "quality": measure.is_quality} for name, measure in measures.items()}


def _ranked(ranked: Ranked) -> dict[str, Any]:
    return {"rows": ranked.rows, "words": PREDICTOR_WORDS,
            **{name: ranked.figures[name] for name in ("overall", "band")},
            "noise": ranked.figures.get("noise"), "steps": ranked.figures.get("steps"),
            "supernet_steps": ranked.figures.get("supernet_steps")}


def rounded(value: Any) -> Any:
    """Numbers with few digits, none where they are not finite; tables and lists as JSON has them."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): rounded(inner) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [rounded(inner) for inner in value]
    return value
