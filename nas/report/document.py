"""A report as one JSON document: everything the script of the page draws, and nothing it has to compute."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from nas.profiling.check import BAND
from nas.ranking.statistics import WORDS
from nas.report import svg
from nas.report.judged import WHOLE, in_short, in_words
from nas.report.shown import Curve, Point, Ranked, Report, Searched
from nas.report.words import in_a_line
from nas.search.measures import Measure, parse_measure

KINDS = {"latency": "latency", "memory": "peak memory", "params": "parameters", "macs": "multiply-adds",
         "weight_bytes": "bytes of weights"}
DIGITS = 6
"""Significant ones of every number."""


def document(report: Report) -> dict[str, Any]:
    """Plain data, ready for JSON."""
    archs = report.architectures()
    widest = svg.widest_of(archs)
    made = {
        "run": report.run, "space": report.space, "task": report.task, "band": BAND, "whole": WHOLE,
        "search": _search(report.searched) if report.searched else None,
        "archs": {key: {"line": in_a_line(arch), "svg": svg.draw(arch, report.slots, widest)}
                  for key, arch in archs.items()},
        "parts": {name: {key: [[each.place, each.role, each.kind, each.ms] for each in parts]
                         for key, parts in of.items()} for name, of in report.devices.parts.items()},
        "gaps": [asdict(gap) for gap in report.devices.gaps],
        "checks": [{"device": each.device, "phase": each.phase, **each.check} for each in report.devices.checks],
        "notes": report.devices.notes,
        "picked": [{"name": each.name, "key": each.arch.key, "steps": [vars(step) for step in each.steps],
                    "costs": each.costs, "measured": each.measured, "exports": each.exports, "trained": each.trained}
                   for each in report.picked],
        "measures": _measures(report),
        "curves": [_curve(curve) for curve in report.curves if not curve.is_told_by_a_teacher],
        "ranked": _ranked(report.ranked) if report.ranked else None, "files": report.files,
    }
    found: dict[str, Any] = rounded(made)
    return found


def _search(found: Searched) -> dict[str, Any]:
    quality, cost = found.shown
    importance = found.importance
    return {
        "date": found.date, "shown": [quality.name, cost.name], "tiles": _tiles(found), "limits": found.limits,
        "judged": in_words(found.examples), "judged_in_short": in_short(found.examples),
        "qualities": [each.name for each in found.qualities], "costs": [each.name for each in found.costs],
        "objectives": [each.name for each in found.objectives],
        "points": [_point(point) for point in found.points],
        "fronts": {f"{quality} {cost}": places for (quality, cost), places in found.fronts.items()},
        "hypervolume": found.hypervolume, "importance": asdict(importance) if importance else None,
    }


def _point(point: Point) -> dict[str, Any]:
    return {"key": point.arch.key, "trial": point.trial, "metrics": point.metrics, "costs": point.costs,
            "estimated": point.estimated, "allowed": point.allowed, "mark": point.mark, "line": in_a_line(point.arch)}


def _tiles(found: Searched) -> list[tuple[str, str, str]]:
    """(what, figure, a word about it) of the numbers that matter."""
    quality, cost = found.shown
    front, counts, judged = found.front(quality, cost), found.counts, in_short(found.examples)
    judged = judged and f", on {judged}"
    told = f"{counts['estimated']:,} told by races" if counts["estimated"] else f"{counts['failed']:,} failed"
    tiles = [("on the front", f"{len(front)}", f"of {counts['architectures']:,} architectures")]
    if front:
        best = (max if quality.maximise else min)(front, key=lambda point: point.value(quality))
        least = front[0]
        tiles += [(f"best {quality.name}", quality.show(best.value(quality)),
                   f"at {cost.show(best.value(cost))}{judged}"),
                  (f"fastest on {cost.device}" if cost.kind == "latency" else f"least {label(cost)}",
                   cost.show(least.value(cost)), f"{quality.name} {quality.show(least.value(quality))}{judged}")]
    return [*tiles, ("evaluated", f"{counts['evaluated']:,}", told)]


def _curve(curve: Curve) -> dict[str, Any]:
    return {"training": curve.training, "model": curve.model, "metric": curve.metric, "steps": curve.steps,
            "values": curve.values, "judged": in_words(curve.examples)}


def label(measure: Measure) -> str:
    """A measure for a reader."""
    where = f" on {measure.device}" if measure.device else ""
    return f"{KINDS.get(measure.kind, measure.kind)}{where}{' (decode)' if measure.phase == 'decode' else ''}"


def _measures(report: Report) -> dict[str, dict[str, Any]]:
    """By name, all that a number can be of."""
    found = {name: Measure(name, maximise=more) for name, more in report.metrics.items()}
    names = [name for each in report.picked for name in (*each.costs, *each.measured)]
    names += [gap.measure for gap in report.devices.gaps]
    found |= {name: parse_measure(name, report.metrics) for name in names}
    found |= {each.name: each for each in report.searched.costs} if report.searched else {}
    return {name: {"label": label(each), "kind": each.kind, "device": each.device, "phase": each.phase,
                   "maximise": each.maximise, "quality": each.is_quality} for name, each in found.items()}


def _ranked(found: Ranked) -> dict[str, Any]:
    return {"rows": found.rows, "words": WORDS, **{name: found.figures[name] for name in ("overall", "band")},
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
