"""Architectures and their blocks in words, by what each block kind declares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from search_spaces import Architecture, BlockConfig, Layer
from search_spaces import registry as kinds
from search_spaces.kind import DrawnPart

USUAL_STYLES = {"mixer": "other", "cross": "cross", "ffn": "ffn"}
"""Default style of a part by the role of its block; `end` outside the layers."""


def describe(block: BlockConfig) -> str:
    """A block in a few words: its kind and its dims; a dim that is false is left out."""
    words = [name if value is True else f"{name} {value}" for name, value in block.dims if value is not False]
    return f"{block.kind}  {', '.join(words)}" if words else block.kind


def block_words(block: BlockConfig, width: int) -> str:
    """A block for the label of a drawing in a model of that width, as its kind declares it."""
    kind = kinds.registry().get(block.kind)
    if kind is None or kind.words is None:
        return describe(block)
    return " · ".join(filter(None, kind.words(block.filled(), width)))


def drawn_parts(block: BlockConfig, width: int) -> tuple[DrawnPart, ...]:
    """The parts of a block in a drawing; by default one part of the model's width."""
    kind = kinds.registry().get(block.kind)
    return (DrawnPart(width),) if kind is None or kind.parts is None else kind.parts(block.filled(), width)


def style_of(role: str, part: DrawnPart) -> str:
    """How a part of a block is drawn."""
    return part.style or USUAL_STYLES.get(role, "end")


def channels(block: BlockConfig, width: int) -> int:
    """The inner width of a block."""
    return int(sum(part.channels for part in drawn_parts(block, width)))


def in_a_line(arch: Architecture) -> str:
    """One line that distinguishes an architecture from others."""
    layers = [layer for stack in arch.stacks.values() for layer in stack]
    mixers = Counter(layer.mixer.kind for layer in layers)
    inner = [channels(layer.ffn, arch.width) for layer in layers if _is_drawn(layer.ffn)]
    rank = channels(arch.embedding, arch.width)
    parts = [" + ".join(_depth(name, stack, len(arch.stacks) > 1) for name, stack in arch.stacks.items()),
             f"width {arch.width}", ", ".join(f"{count}× {kind}" for kind, count in sorted(mixers.items())),
             f"FFN {_range(inner)}" if inner else "", f"embedding rank {rank}" if rank < arch.width else "",
             *map(_shared, arch.stacks.values())]
    return " · ".join(filter(None, parts))


def stack_line(name: str, layers: tuple[Layer, ...], n_slots: int | None) -> str:
    """A stack in a few words: its depth, the parts that are shared, the slots that no layer uses."""
    mixers, ffns = [layer.mixer_slot for layer in layers], [layer.ffn_slot for layer in layers]
    parts = [f"{name}: {len(layers)} layer{'s' if len(layers) > 1 else ''}"]
    for what, slots in (("mixers", mixers), ("feed-forwards", ffns)):
        if len(set(slots)) < len(slots):
            parts.append(f"{len(slots)} {what} share the weights of {len(set(slots))}")
    used = set(mixers) | set(ffns)
    idle = [str(slot) for slot in range(n_slots or max(used) + 1) if slot not in used]
    if idle:
        parts.append(f"unused slots: {', '.join(idle)}")
    return "; ".join(parts)


def _is_drawn(block: BlockConfig) -> bool:
    """Whether a kind declares the widths of its blocks."""
    kind = kinds.registry().get(block.kind)
    return kind is not None and kind.parts is not None


def _depth(name: str, layers: tuple[Layer, ...], named: bool) -> str:
    return f"{len(layers)} {f'{name} ' if named else ''}layer{'' if len(layers) == 1 else 's'}"


def _range(values: Iterable[int]) -> str:
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low}–{high}"


def _shared(layers: tuple[Layer, ...]) -> str:
    """Which parts of a stack share weights."""
    slots = {"mixers": {layer.mixer_slot for layer in layers}, "FFNs": {layer.ffn_slot for layer in layers}}
    shared = [name for name, used in slots.items() if len(used) < len(layers)]
    return f"{' and '.join(shared)} shared" if shared else ""
