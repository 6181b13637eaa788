"""Draws the layers of one architecture for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from nas.costs import UnitCost, unit_costs
from nas.resolve import Named
from nas.tables import ROOMY
from search_spaces.architecture import Architecture, Layer
from search_spaces.block import BlockConfig
from search_spaces.units import SUBLAYERS, Step

BAR = 16
"""Characters of the longest bar."""
COLOURS = {"mixer": "cyan", "cross": "magenta", "ffn": "green"}
EIGHTHS = " ▏▎▍▌▋▊▉"


def draw(named: Named, seq_len: int, target_len: int | None, columns: int, ascii_only: bool) -> RenderableType:
    """One row per part of every layer: what it is, how wide, which slot, what it costs.

    Args:
        columns: of the terminal; a narrow one gets no bars and short numbers.
    """
    arch = named.arch
    costs = unit_costs(arch, seq_len, target_len)
    pictures: list[RenderableType] = [Text.from_markup(line) for line in _heading(named, seq_len, target_len)]
    slots = {name: stack.slots for name, stack in named.space.stacks.items()} if named.space else {}
    pictures += [Text(stack_line(name, layers, slots.get(name))) for name, layers in arch.stacks.items()]
    return Group(*pictures, _table(arch, costs, columns >= ROOMY, ascii_only))


def _heading(named: Named, seq_len: int, target_len: int | None) -> Iterator[str]:
    arch = named.arch
    lengths = f"{seq_len} tokens" if arch.family != "seq2seq" else f"{seq_len} -> {target_len or seq_len} tokens"
    yield f"[bold]{escape(named.name)}[/bold]  key {arch.key[:12]}"
    classes = f", {arch.n_classes} classes" if arch.n_classes else ""
    yield (f"{arch.family}, width {arch.width}, {arch.vocab_size} words{classes}, context {arch.context}, "
           f"positions {arch.positions}, norm {arch.norm} ({arch.placement}); MACs of {lengths}")


def stack_line(name: str, layers: tuple[Layer, ...], n_slots: int | None) -> str:
    """A stack in a few words: its depth, the parts that are shared, the slots that no layer uses."""
    mixers, ffns = [layer.mixer_slot for layer in layers], [layer.ffn_slot for layer in layers]
    says = [f"{name}: {len(layers)} layer{'s' if len(layers) > 1 else ''}"]
    for what, slots in (("mixers", mixers), ("feed-forwards", ffns)):
        if len(set(slots)) < len(slots):
            says.append(f"{len(slots)} {what} share the weights of {len(set(slots))}")
    used = set(mixers) | set(ffns)
    idle = [str(slot) for slot in range(n_slots or max(used) + 1) if slot not in used]
    if idle:
        says.append(f"slots no layer uses: {', '.join(idle)}")
    return "; ".join(says)


def _table(arch: Architecture, costs: list[UnitCost], roomy: bool, ascii_only: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    for name in ("layer", "slot", "block", "channels") if roomy else ("layer", "slot", "block"):
        table.add_column(name, no_wrap=name != "block", overflow="fold")
    for name in ("params", "%", "MACs", "%"):
        table.add_column(name, justify="right", no_wrap=True)
    params, macs = sum(cost.params for cost in costs), sum(cost.macs for cost in costs)
    widest = max(channels(cost.step.unit.block, arch.width) for cost in costs if cost.step.unit.role in SUBLAYERS)
    seen: set[str] = set()
    for cost in costs:
        step = cost.step
        block, role = step.unit.block, step.unit.role
        bar = _bar(channels(block, arch.width), widest, role, ascii_only) if role in SUBLAYERS else Text("")
        number = _number if roomy else _short
        table.add_row(_label(step), _slot(step, step.path in seen), describe(block), *([bar] if roomy else []),
                      number(cost.params), _share(cost.params, params), number(cost.macs), _share(cost.macs, macs))
        seen.add(step.path)
    table.add_row("total", "", "", *([""] if roomy else []), number(params), "", number(macs), "", style="bold")
    return table


def _label(step: Step) -> str:
    """Names a layer once, at its mixer, and everything outside the layers by its role."""
    if step.unit.role in SUBLAYERS:
        return f"{step.stack} {step.layer}" if step.unit.role == "mixer" else ""
    return step.unit.role


def _slot(step: Step, seen: bool) -> str:
    slot = step.path.split(".")[1] if step.unit.role in SUBLAYERS else ""
    return f"{slot} shared".strip() if seen else slot


def describe(block: BlockConfig) -> str:
    """A block in a few words: its kind and its dims; a dim that is false is left out."""
    words = [name if value is True else f"{name} {value}" for name, value in block.dims if value is not False]
    return f"{block.kind}  {', '.join(words)}" if words else block.kind


def channels(block: BlockConfig, width: int) -> int:
    """How wide a block is inside, by the names of its dims; the model's width where they do not say."""
    dims = dict(block.dims)
    if "inner" in dims:
        return int(dims["inner"])
    if "n_heads" in dims and "head_dim" in dims:
        return int(dims["n_heads"]) * int(dims["head_dim"])
    return int(float(dims["multiplier"]) * width) if "multiplier" in dims else width


def _bar(value: int, most: int, role: str, ascii_only: bool) -> Text:
    eighths = max(round(8 * BAR * value / most), 1)
    if ascii_only:
        bar = "#" * max(round(eighths / 8), 1)
    else:
        bar = "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
    return Text.assemble((bar, COLOURS[role]), f" {value}")


def _number(value: int) -> str:
    return f"{value:,}" if value else "-"


def _short(value: int) -> str:
    """Three digits and a unit."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return str(value) if value else "-"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if part and whole else ""
