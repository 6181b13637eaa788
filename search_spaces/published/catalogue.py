"""The catalogue of published models: each name is one architecture, each number a published figure."""

from __future__ import annotations

import copy
import csv
import io
import re
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib.resources import files
from typing import Any

from search_spaces.architecture import Architecture
from search_spaces.errors import Fault, InputError, did_you_mean
from search_spaces.files.loader import space_from_data
from search_spaces.files.reading import parse_yaml

SCHEMA_VERSION = 1
STATUSES = ("yes", "fitted", "approx")
METRICS = ("params", "macs", "flops", "depth", "size")
UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "MiB": 2.0**20, "x": 1.0, "%": 0.01, "layers": 1.0}


@dataclass(frozen=True)
class PublishedNumber:
    """One figure of a publication.

    Args:
        model: the model's name as printed.
        architecture: the name in this catalogue; `a/b` where the figure is a ratio of two, `a - b` where it is their
            difference: in `%`, relative to the first.
        metric: one of `METRICS`, of one architecture or of both sides of a ratio.
        value: in `unit`, as printed.
        tolerance: the greatest relative deviation; 0 means exact.
        status: `yes`, checked with a configuration the source gives; `fitted`, with a setting chosen to
            agree; `approx`, for information.
        convention: how multiply-adds are counted: `plain`, `lite`, `delight` or `mobilebert`.
        part: what is counted: `all`, `embedding` (with the output layer), `non_embedding`, `attention` or `ffn`.
        seq_len: length of the (source) sequence; 0 where it does not matter.
        target_len: length of the target sequence; 0 where there is none.
    """

    paper: str
    model: str
    architecture: str
    metric: str
    value: float
    unit: str
    tolerance: float
    status: str
    convention: str
    part: str
    seq_len: int
    target_len: int
    note: str

    @property
    def names(self) -> list[str]:
        """The architectures that the figure is about."""
        return re.split(r"/| - ", self.architecture)

    @property
    def is_difference(self) -> bool:
        """Whether the figure is the difference of two architectures."""
        return " - " in self.architecture

    @property
    def gates(self) -> bool:
        """Whether a deviation beyond the tolerance is a failure."""
        return self.status != "approx"


def names() -> list[str]:
    """The names of all published architectures, sorted."""
    return sorted(_points())


@lru_cache(maxsize=256)
def load_published(name: str) -> Architecture:
    """The published architecture of that name.

    Raises:
        InputError: there is none, or its entry does not describe exactly one architecture.
    """
    points = _points()
    if name not in points:
        hint = did_you_mean(name, points, cutoff=0.4)
        raise InputError(name, f"is not a published architecture{hint}; available: {', '.join(names())}")
    where, base, overrides = points[name]
    return single_architecture(_overridden(base, overrides, where) | {"name": name}, where)


def single_architecture(data: dict[str, Any], where: str) -> Architecture:
    """The one architecture of a space of size 1. Raises InputError if there are more."""
    space = space_from_data(data, where)
    if space.genes:
        gene, values = next(iter(space.genes.items()))
        message = f"has {len(values)} values; a published architecture fixes every dimension"
        raise InputError(where, [Fault(gene, message)])
    return space.decode({})


@lru_cache(maxsize=1)
def _points() -> dict[str, tuple[str, dict[str, Any], dict[str, Any]]]:
    """Name -> (where it is written, base, overrides)."""
    points: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {}
    for entry in sorted(files(__package__).iterdir(), key=lambda entry: entry.name):
        if not entry.name.endswith(".yaml"):
            continue
        where = f"published/{entry.name}"
        data = parse_yaml(entry.read_text("utf-8"), where)
        if not isinstance(data, dict) or set(data) != {"schema_version", "base", "models"}:
            raise InputError(where, "must be a table with the keys schema_version, base and models")
        version = data["schema_version"]
        if version != SCHEMA_VERSION:
            raise InputError(where, [Fault("schema_version", f"{version!r} is not allowed; allowed: {SCHEMA_VERSION}")])
        for name, overrides in data["models"].items():
            if name in points:
                raise InputError(where, [Fault(f"models.{name}", f"is defined in {points[name][0]} too")])
            points[name] = (f"{where}: {name}", data["base"], overrides)
    return points


def _overridden(base: dict[str, Any], overrides: dict[str, Any], where: str) -> dict[str, Any]:
    """A copy of `base` with the value at every dotted key replaced."""
    result = copy.deepcopy(base)
    for path, value in overrides.items():
        *tables, last = path.split(".")
        inside = result
        for key in tables:
            inside = inside.get(key) if isinstance(inside, dict) else None  # type: ignore[assignment]
        if not isinstance(inside, dict):
            raise InputError(where, [Fault(path, "is not a table of the base")])
        inside[last] = copy.deepcopy(value)
    return result


@lru_cache(maxsize=1)
def _numbers() -> tuple[PublishedNumber, ...]:
    text = files(__package__).joinpath("counts.csv").read_text("utf-8")
    return tuple(_number(row, i) for i, row in enumerate(csv.DictReader(io.StringIO(text)), start=2))


def numbers() -> list[PublishedNumber]:
    """Every published figure. Raises InputError if the table is wrong."""
    return list(_numbers())


def _number(row: dict[str, str], line: int) -> PublishedNumber:
    where = f"published/counts.csv line {line}"
    parse: dict[str, Any] = {"float": float, "int": lambda text: int(text or 0), "str": str}
    try:
        number = PublishedNumber(**{f.name: parse[str(f.type)](row[f.name]) for f in fields(PublishedNumber)})
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(where, f"cannot be read: {error}") from None
    for name, allowed in (("status", STATUSES), ("metric", METRICS), ("unit", UNITS)):
        if getattr(number, name) not in allowed:
            raise InputError(where, [Fault(name, f"{getattr(number, name)!r} is not one of {', '.join(allowed)}")])
    for name in number.names:
        if name not in _points():
            raise InputError(where, [Fault("architecture", f"{name!r} is not a published architecture")])
    return number
