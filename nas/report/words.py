"""An architecture in a line, and its blocks in a few words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nas.drawing import describe
from search_spaces import Architecture, BlockConfig, Layer

Dims = Mapping[str, Any]


def in_a_line(arch: Architecture) -> str:
    """What a reader tells architectures apart by."""
    layers = [layer for stack in arch.stacks.values() for layer in stack]
    kinds = Counter(layer.mixer.kind for layer in layers)
    inner = [int(layer.ffn["inner"]) for layer in layers if "inner" in dict(layer.ffn.dims)]
    rank = int(dict(arch.embedding.dims).get("rank", arch.width))
    said = [" + ".join(_depth(name, stack, len(arch.stacks) > 1) for name, stack in arch.stacks.items()),
            f"width {arch.width}", ", ".join(f"{count}× {kind}" for kind, count in sorted(kinds.items())),
            f"FFN {_range(inner)}" if inner else "", f"embedding rank {rank}" if rank < arch.width else "",
            *map(_shared, arch.stacks.values())]
    return " · ".join(filter(None, said))


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


def block_words(block: BlockConfig, width: int) -> str:
    """A block for the label of a drawing; a kind that is not known here as `nas show` says it."""
    write = _WORDS.get(block.kind)
    return " · ".join(filter(None, write(dict(block.dims), width))) if write else describe(block)


def _heads(dims: Dims) -> str:
    few = f", {dims['n_kv_heads']} key/value" if dims.get("n_kv_heads", dims["n_heads"]) < dims["n_heads"] else ""
    size = f" × {dims['head_dim']}" if "head_dim" in dims else ""
    return f"{dims['n_heads']} head{'' if dims['n_heads'] == 1 else 's'}{size}{few}"


def _kernel(dims: Dims) -> str:
    return f"{dims['conv']} kernel {dims['kernel']}"


def _widened(dims: Dims, width: int) -> str:
    return f"rank {dims['rank']} to {width}" if dims["rank"] < width else f"{width}"


_WORDS: dict[str, Callable[[Dims, int], tuple[str, ...]]] = {
    "attention": lambda dims, width: ("attention", _heads(dims)),
    "cross_attention": lambda dims, width: ("cross-attention", _heads(dims)),
    "lsra": lambda dims, width: (f"LSRA, {100 * dims['ratio']:.0f} % attends", _heads(dims), _kernel(dims)),
    "conv": lambda dims, width: ("convolution", _kernel(dims)),
    "delight": lambda dims, width: ("delight", f"depth {dims['depth']}", f"widens × {dims['multiplier']:g}"),
    "ffn": lambda dims, width: ("FFN", str(dims["inner"]), dims["activation"], "gated" if dims["gated"] else ""),
    "lookup": lambda dims, width: ("embedding", _widened(dims, width)),
    "dextra_lookup": lambda dims, width: ("embedding", _widened(dims, width), f"DExTra depth {dims['depth']}"),
    "tied": lambda dims, width: ("head", "tied to the embedding"),
    "linear": lambda dims, width: ("head", f"rank {dims['head_rank']}" if dims["head_rank"] < width else "own matrix"),
    "classifier": lambda dims, width: ("classifier", f"pools by {dims['pool']}"),
}
