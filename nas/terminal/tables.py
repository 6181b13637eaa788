"""Tables the command line prints, and the same as plain data for `--json`."""

from __future__ import annotations

import random
import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from nas.core.resolve import Named
from nas.terminal.plain_table import FirstThatFits, ForWidth, PlainTable
from search_spaces import Architecture, InputError, SearchSpace, load_space, shipped_spaces
from search_spaces import registry as kinds
from search_spaces.kind import ROLES
from search_spaces.space.dimensions import Gene
from supernet.train.recipe import BUDGETS, Recipe

if TYPE_CHECKING:  # they import torch, which most tables need not wait for
    from nas.core.costs import Cost
    from nas.core.published import Row

SAMPLES = 101
ROOMY, NARROW = 112, 100
"""Minimum terminal widths for full tables, and for one line per figure."""
RESULT_STYLES = {"pass": "green", "fail": "bold red", "info": "dim"}
table = PlainTable


def spaces_data() -> list[dict[str, Any]]:
    """The shipped spaces as plain data."""
    return [{"name": space.name, "family": space.family, "genes": len(space.genes), "size": space.size(),
             "description": space.description} for space in map(load_space, shipped_spaces())]


def spaces_table(rows: list[dict[str, Any]]) -> Table:
    """The shipped spaces for a terminal."""
    result = table("space", "family", "genes", "architectures", "description", right=("genes", "architectures"))
    for row in rows:
        result.add_row(row["name"], row["family"], str(row["genes"]), short(row["size"]), row["description"])
    return result


def blocks_data(kind: str | None) -> list[dict[str, Any]]:
    """The installed block kinds as plain data. Raises InputError for an unknown one."""
    if kind is not None and kind not in kinds.registry():
        raise InputError(kind, f"unknown block kind; installed: {', '.join(sorted(kinds.registry()))}")
    chosen = [kinds.get(name) for role in ROLES for name in kinds.names(role) if kind in (None, name)]
    return [{"kind": declared.name, "role": declared.role, "help": declared.help, "causal": declared.causal,
             "dims": [{"name": dim.name, "help": dim.help, "default": dim.default, "allowed": dim.allowed}
                      for dim in declared.dims]} for declared in chosen]


def blocks_table(rows: list[dict[str, Any]]) -> Table:
    """The installed block kinds for a terminal, one row a dim."""
    result = table("role", "kind", "dim", "description", "default", "allowed")
    for row in rows:
        result.add_row(row["role"], Text(row["kind"], style="bold"), "", row["help"], "", "")
        for dim in row["dims"]:
            default = "" if dim["default"] is None else str(dim["default"]).lower()
            result.add_row("", "", dim["name"], dim["help"], default, dim["allowed"])
    return result


def settings_data() -> list[dict[str, Any]]:
    """The settings of a training as plain data."""
    fields = [{"name": name, "default": field.default, "help": field.description or ""}
              for name, field in Recipe.model_fields.items()]
    after = 1 + list(Recipe.model_fields).index("steps")
    budgets = [{"name": name, "default": None, "help": text} for name, text in BUDGETS.items()]
    return [*fields[:after], *budgets, *fields[after:]]


def settings_table(rows: list[dict[str, Any]]) -> Table:
    """The settings of a training for a terminal."""
    result = table("setting", "default", "description")
    for row in rows:
        default = "" if row["default"] is None else str(row["default"])
        result.add_row(row["name"], default.lower() if isinstance(row["default"], bool) else default, row["help"])
    return result


def space_summary(space: SearchSpace) -> RenderableType:
    """A space in a few lines and a row per dimension."""
    stacks = ", ".join(f"{name} of {stack.slots} slots" for name, stack in space.stacks.items())
    return Group(
        Text.from_markup(f"[bold]{escape(space.name)}[/bold]  {escape(space.description)}"),
        Text(f"{space.family}: {stacks}, vocabulary {space.vocab_size}, context {space.context}"),
        Text(f"{space.size():,} architectures from {len(space.genes)} genes"),
        dimensions_table(space),
    )


def dimensions_table(space: SearchSpace) -> Table:
    """Every dimension with a choice; one row for a gene that all slots have separately."""
    result = table("dimension", "values", "for each of")
    for gene, n_slots in _genes(space):
        lists = [gene.choices(slot) for slot in range(n_slots)]
        if all(len(values) == 1 for values in lists):
            continue
        values = dict.fromkeys(str(value) for choices in lists for value in choices)
        by_slot = " (lists differ)" if len(set(lists)) > 1 else ""
        result.add_row(gene.name.replace("{slot}.", ""), ", ".join(values),
                       f"{n_slots} slots{by_slot}" if gene.per_slot else "the model")
    return result


def _genes(space: SearchSpace) -> Iterator[tuple[Gene, int]]:
    """Every gene with the number of slots that have it separately, 1 outside the stacks."""
    ends = (*space.settings.values(), *space.embedding.genes(), *space.head.genes())
    for gene in (*ends, *(space.scaling.genes() if space.scaling else ())):
        yield gene, 1
    for stack in space.stacks.values():
        for gene in stack.genes():
            yield gene, stack.slots if gene.per_slot else 1


def costs(named: SearchSpace | Named, seq_len: int, target_len: int | None, convention: str) -> dict[str, Cost]:
    """The cost of an architecture under its name, or of a space under three."""
    from nas.core.costs import count

    if isinstance(named, Named):
        return {named.name: count(named.arch, seq_len, target_len, convention)}
    return space_costs(named, seq_len, target_len, convention)


def space_costs(space: SearchSpace, seq_len: int, target_len: int | None, convention: str) -> dict[str, Cost]:
    """The smallest, the median (each number by itself, of seeded samples) and the largest of a space."""
    from nas.core.costs import Cost, count

    def cost(arch: Architecture) -> Cost:
        return count(arch, seq_len, target_len, convention)

    drawn = [cost(space.sample(random.Random(seed))) for seed in range(SAMPLES)]  # noqa: S311
    median = Cost(**{field.name: int(statistics.median(getattr(one, field.name) for one in drawn))
                     for field in fields(Cost)})
    return {"smallest": cost(space.smallest()), "median": median, "largest": cost(space.largest())}


def costs_table(costs: dict[str, Cost]) -> RenderableType:
    """Costs for a terminal, one row each; in a narrow one a column each."""
    result = table("architecture", "params", "in embeddings", "MACs", "bytes (float32)",
                   right=("params", "in embeddings", "MACs", "bytes (float32)"))
    labels = [f"median of {SAMPLES}" if name == "median" else name for name in costs]
    values = [[f"{value:,}" for value in asdict(cost).values()] for cost in costs.values()]
    for label, row in zip(labels, values):
        result.add_row(label, *row)
    turned = table("", *labels, right=labels)  # for names that leave no room beside them
    for column, cells in zip(result.columns[1:], zip(*values)):
        turned.add_row(str(column.header), *cells)
    return FirstThatFits(result, turned)


def costs_data(named: SearchSpace | Named, costs: dict[str, Cost], setting: dict[str, Any]) -> dict[str, Any]:
    """Costs as plain data: flat for an architecture, by name for a space."""
    if isinstance(named, Named):
        return {"name": named.name, "key": named.arch.key, **setting, **asdict(costs[named.name])}
    return {"name": named.name, "size": named.size(), "samples": SAMPLES, **setting,
            **{name: asdict(cost) for name, cost in costs.items()}}


def published_data(rows: list[Row]) -> dict[str, Any]:
    """Published figures beside ours as plain data."""
    return {"figures": [{**asdict(row.number), "ours": row.ours, "deviation": row.deviation, "result": row.result}
                        for row in rows], "results": dict(Counter(row.result for row in rows))}


def published_table(rows: list[Row], columns: int) -> RenderableType:
    """Published figures beside ours for a terminal, and how many are met; a narrow one gets our names only."""
    sources = ("paper", "model") if columns >= ROOMY else ()
    wide = table(*sources, "architecture", "figure", "published", "ours", "deviation", "result",
                 right=("published", "ours", "deviation"), keep=("architecture",), minor=sources)
    narrow = table("architecture", "published", "ours", "result", right=("published", "ours"))
    for row in rows:
        number = row.number
        figure = number.metric if number.part == "all" else f"{number.metric} ({number.part})"
        values = (f"{number.value:g} {number.unit}", f"{row.ours:.4g} {number.unit}")
        wide.add_row(*(getattr(number, name) for name in sources), number.architecture, figure, *values,
                     f"{100 * row.deviation:+.2f} %", _result(row))
        narrow.add_row(f"{number.architecture}\n  {figure}", *values, _result(row))
    result = ForWidth(NARROW, wide, narrow)
    results = Counter(row.result for row in rows)
    fitted = sum(row.result == "pass" and row.number.status == "fitted" for row in rows)
    counts = ", ".join(f"{results[name]} {name}" for name in RESULT_STYLES)
    return Group(result, Text(f"{len(rows)} figures: {counts}; {fitted} of those that pass are fitted with a "
                              "setting that the publication does not state"))


def _result(row: Row) -> Text:
    fitted = " (fitted)" if row.result == "pass" and row.number.status == "fitted" else ""
    return Text(row.result + fitted, style=RESULT_STYLES[row.result])


def short(number: int) -> str:
    """A count in full up to a million, then with three digits and an exponent."""
    return f"{number:,}" if number < 1_000_000 else f"{number:.2e}"
