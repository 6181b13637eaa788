"""The layers of an architecture as rows of text, for the terminal and for the model card."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nas.core.costs import unit_costs
from nas.core.describing import channels, describe, stack_line
from search_spaces.architecture import Architecture
from search_spaces.residual import PLAIN
from search_spaces.space.search_space import SearchSpace
from search_spaces.units import SUBLAYERS, Step

BAR = 16
"""Characters of the longest bar."""
EIGHTHS = " ▏▎▍▌▋▊▉"
HEAD = ("layer", "slot", "block", "channels", "params", "%", "MACs", "%")
NUMBERS = (4, 5, 6, 7)
"""The columns of numbers, which are aligned on the right."""


@dataclass(frozen=True)
class LayerRow:
    """One part of a layer, or a part outside the layers.

    Args:
        label: names a layer once, at its mixer, and everything outside the layers by its role.
        slot: whose weights it uses, and whether an earlier row has the same.
        channels: its inner width; 0 outside the layers.
        params: 0 if an earlier row has the same weights.
    """

    label: str
    slot: str
    role: str
    block: str
    channels: int
    params: int
    macs: int


def layer_rows(arch: Architecture, seq_len: int, target_len: int | None = None) -> list[LayerRow]:
    """A row for each part of every layer: what it is, how wide, which slot, what it costs."""
    rows, seen = [], set()
    for cost in unit_costs(arch, seq_len, target_len):
        step = cost.step
        role, block = step.unit.role, step.unit.block
        wide = channels(block, arch.width) if role in SUBLAYERS else 0
        rows.append(LayerRow(_label(step), _slot(step, step.path in seen), role, describe(block), wide, cost.params,
                             cost.macs))
        seen.add(step.path)
    return rows


def about(arch: Architecture, seq_len: int, target_len: int | None = None) -> str:
    """Properties of the whole model, and the number of tokens for counting multiply-adds."""
    lengths = f"{seq_len} tokens" if arch.family != "seq2seq" else f"{seq_len} -> {target_len or seq_len} tokens"
    classes = {0: "", 1: ", one number"}.get(arch.n_classes, f", {arch.n_classes} classes")
    norms = f"norm {arch.norm} ({arch.placement})" if arch.residual == PLAIN else f"residual {arch.residual}"
    return (f"{arch.family}, width {arch.width}, vocabulary {arch.vocab_size}{classes}, context {arch.context}, "
            f"positions {arch.positions}, {norms}; MACs of {lengths}")


def stack_lines(arch: Architecture, space: SearchSpace | None = None) -> list[str]:
    """Every stack in a few words."""
    slots = {name: stack.slots for name, stack in space.stacks.items()} if space else {}
    return [stack_line(name, layers, slots.get(name)) for name, layers in arch.stacks.items()]


def bar(value: int, most: int, ascii_only: bool = False) -> str:
    """A bar to scale; empty for 0."""
    if not value:
        return ""
    eighths = max(round(8 * BAR * value / most), 1)
    return "#" * max(round(eighths / 8), 1) if ascii_only else "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def share(part: int, whole: int) -> str:
    """A percentage; empty for 0."""
    return f"{100 * part / whole:.1f}" if part and whole else ""


def drawing(arch: Architecture) -> Iterator[str]:
    """An architecture in lines of plain text."""
    yield f"{arch.family}  key {arch.key[:12]}"
    yield about(arch, arch.context)
    yield from stack_lines(arch)
    rows = layer_rows(arch, arch.context)
    params, macs = sum(row.params for row in rows), sum(row.macs for row in rows)
    widest = max(row.channels for row in rows)
    cells = [(row.label, row.slot, row.block, f"{bar(row.channels, widest)} {row.channels or ''}".strip(),
              number(row.params), share(row.params, params), number(row.macs), share(row.macs, macs)) for row in rows]
    table = [HEAD, *cells, ("total", "", "", "", number(params), "", number(macs), "")]
    widths = [max(map(len, column)) for column in zip(*table)]
    for line in table:
        aligned = (cell.rjust(n) if i in NUMBERS else cell.ljust(n) for i, (cell, n) in enumerate(zip(line, widths)))
        yield "  ".join(aligned).rstrip()


def _label(step: Step) -> str:
    if step.unit.role in SUBLAYERS:
        return f"{step.stack} {step.layer}" if step.unit.role == "mixer" else ""
    return step.unit.role


def _slot(step: Step, seen: bool) -> str:
    slot = step.path.split(".")[1] if step.unit.role in SUBLAYERS else ""
    return f"{slot} shared".strip() if seen else slot


def number(value: int) -> str:
    """A count as text."""
    return f"{value:,}" if value else "-"
