"""The data of a report as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from nas.core.describing import in_a_line
from nas.core.trials import UNMEASURED
from nas.stages.report.document import rounded
from nas.stages.report.front_kinds import front_kinds
from nas.stages.report.shown import RunReport, Searched, TimedPart


def tables(report: RunReport) -> dict[str, str]:
    """The text of each table by its name; one that has no rows is left out."""
    tables_by_name = dict(_tables(report))
    return {name: _csv(rows) for name, rows in tables_by_name.items() if rows}


def _tables(report: RunReport) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    if report.searched:
        yield from _search_tables(report.searched)
    devices = report.devices
    yield "breakdown", [{"measure": name, "key": key, **_plain(part)} for name, of in devices.parts.items()
                        for key, parts in of.items() for part in parts]
    yield "predicted-measured", [asdict(gap) for gap in devices.gaps]
    yield "profiles", [_flat(entry) for entry in devices.checks]
    yield "subnets", [{"name": entry.name, "key": entry.arch.key, "step": place, "stage": step.stage, **step.metrics,
                       **entry.costs, **_shares(entry.unmeasured), "settings": step.settings}
                      for entry in report.picked for place, step in enumerate(entry.steps, 1)]
    yield "curves", [{"training": curve.training or "supernet", "model": curve.model, "metric": curve.metric,
                      "step": step, "value": value}
                     for curve in report.curves for step, value in zip(curve.steps, curve.values)]
    yield "ranking", report.ranked.rows if report.ranked else []
    yield "architectures", [{"key": key, "summary": in_a_line(arch), "architecture": arch.to_json()}
                            for key, arch in report.architectures().items()]


def _search_tables(searched: Searched) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    yield "evaluated", [{"key": point.arch.key, "trial": point.trial, "name": point.mark, **point.metrics,
                         **point.costs, **_shares(point.unmeasured), "estimated": int(point.estimated),
                         "within_limits": int(point.allowed),
                         "summary": in_a_line(point.arch)} for point in searched.points]
    yield "fronts", [{"quality": quality, "cost": cost, "key": searched.points[i].arch.key}
                     for (quality, cost), places in searched.fronts.items() for i in places]
    yield "front-kinds", [{"quality": quality.name, "cost": cost.name, **asdict(row)}
                          for quality in searched.qualities for cost in searched.costs
                          for row in front_kinds(searched.points, searched.front(quality, cost), quality, cost)]
    yield "hypervolume", [{"evaluated": i, "hypervolume": value} for i, value in enumerate(searched.hypervolume, 1)]
    if searched.importance:
        importance = searched.importance
        yield "importance", [{"dimension": name, "share": share, "value": value, "effect": effect, "r2": importance.r2}
                             for name, share in importance.shares.items()
                             for value, effect in importance.effects[name].items()]


def _plain(part: TimedPart) -> dict[str, Any]:
    return {name: value for name, value in asdict(part).items() if name != "style"}


def _shares(unmeasured: Mapping[str, float]) -> dict[str, float]:
    """Columns as in trials.csv."""
    return {f"{UNMEASURED}:{name}": share for name, share in unmeasured.items()}


def _flat(check: Any) -> dict[str, Any]:
    """Tables in tables as columns: predicted.mape."""
    return {key: value for name, inner in check.items() if name != "schema_version"
            for key, value in ([(f"{name}.{part}", inner_value) for part, inner_value in inner.items()]
                               if isinstance(inner, dict) else [(name, inner)])}


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    columns = dict.fromkeys(name for row in rows for name in row)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rounded(list(rows)))
    return text.getvalue()
