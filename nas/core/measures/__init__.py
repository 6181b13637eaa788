"""Measures: what a search can minimise, maximise or limit. One file each; see README.md."""

from __future__ import annotations

from nas.core.measures._base import BYTES, COUNT, TIME, MeasureKind, PriceConditions
from nas.core.measures._parsing import parse_all, parse_limit, parse_limits, parse_measure
from nas.core.measures._registry import registry
from nas.core.measures._value import MARK, Limit, Measure, devices_of, summarised

__all__ = ["BYTES", "COUNT", "MARK", "TIME", "Limit", "Measure", "MeasureKind", "PriceConditions", "devices_of",
           "parse_all", "parse_limit", "parse_limits", "parse_measure", "registry", "summarised"]
