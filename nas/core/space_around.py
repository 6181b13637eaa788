"""The YAML text of a space around an architecture: its largest architecture is that one."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nas.core.commands import flag
from nas.core.sizes import HARDWARE_STEPS, hardware_step
from search_spaces import Architecture, InputError
from search_spaces import registry as kinds
from search_spaces.architecture import Layer
from search_spaces.block import BlockConfig
from search_spaces.files.compile import MOST_SEARCHED_SLOTS
from search_spaces.space.layers import Sharing

DIMENSIONS = ("depth", "width", "heads", "ffn", "rank", "sharing")
"""Dimensions that are searched unless they are kept fixed."""


@dataclass(frozen=True)
class SimilarLayers:
    """Which layers of a stack are similar enough to share weights.

    Args:
        sharing: what may be shared, such as `attention/2`.
        cosine: the minimum over the weights that would be shared; if there is no choice, that of the most similar
            neighbours.
    """

    sharing: tuple[str, ...]
    cosine: float


@dataclass(frozen=True)
class SpaceOptions:
    """What a space around a model searches.

    Args:
        of: what the model is called.
        keep: dimensions that stay as they are, of `DIMENSIONS`; `all` for all of them.
        least: the smallest share of a dimension.
        uniform: whether all layers of an architecture are alike.
        choices: how many values a dimension has, at most.
        similar: by stack, how similar its layers are; none where that is unknown.
    """

    of: str
    keep: tuple[str, ...] = ()
    least: float = 0.3
    uniform: bool = False
    choices: int = 4
    similar: Mapping[str, SimilarLayers] = field(default_factory=dict)

    def searched(self, dimension: str) -> bool:
        """Whether a dimension is searched."""
        return dimension not in self.keep and "all" not in self.keep


def space_yaml(arch: Architecture, name: str, around: SpaceOptions) -> str:
    """The file. Raises InputError where the layers of a stack are of different kinds."""
    return "\n".join(_lines(arch, name, around)) + "\n"


def fixed_space(arch: Architecture, name: str) -> str:
    """A space with one architecture. Raises InputError as `space_yaml`."""
    return space_yaml(arch, space_name(name), SpaceOptions(name, ("all",)))


def space_name(text: str) -> str:
    """A name that a space may have, close to a text."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text).lstrip("._-") or "space"


def _lines(arch: Architecture, name: str, around: SpaceOptions) -> Iterator[str]:
    if "all" in around.keep:
        yield f"# The architecture of {around.of}."
    else:
        yield f"# A search space around {around.of}: its largest architecture is the model itself."
        yield "# Every list can be shortened or extended; the largest value of each must stay. " \
              f"Train it with {flag('init')}."
    for key, value in (("schema_version", 1), ("name", name), ("family", arch.family),
                       ("vocab_size", arch.vocab_size), ("context", arch.context)):
        yield f"{key}: {_yaml(value)}"
    for key, default in (("n_classes", 0), ("n_types", 0)):
        if getattr(arch, key) != default:
            yield f"{key}: {getattr(arch, key)}"
    widths = _widths(arch, around)
    yield f"width: {_yaml(widths)}    # of the residual stream, through the whole model"
    for key in ("norm", "placement", "positions", "bias", "share_inputs", "residual"):
        yield f"{key}: {_yaml([getattr(arch, key)])}"
    if arch.norm_eps:
        yield f"norm_eps: {_yaml(arch.norm_eps)}"
    yield "embedding:"
    yield from _block(arch.embedding, 2, {"rank": _ranks(arch, widths, around)})
    yield "head:"
    full = arch.head.filled().get("head_rank") == arch.width
    yield from _block(arch.head, 2, {"head_rank": ["full"]} if full else {})
    for stack, layers in arch.stacks.items():
        yield from _stack(stack, layers, around)


def _stack(stack: str, layers: tuple[Layer, ...], around: SpaceOptions) -> Iterator[str]:
    depth, owners = len(layers), [layer.mixer_slot for layer in layers]
    yield f"{stack}:"
    yield f"  slots: {depth}"
    if len(set(owners)) < depth or any(layer.ffn_slot != layer.mixer_slot for layer in layers):
        yield f"  sharing: [{_sharing(stack, layers)}]    # which layers share weights"
    else:
        yield from _similar(stack, around)
    if len(set(owners)) == depth and around.searched("depth") and depth > 1:
        least = max(math.ceil(around.least * depth), 1)
        if depth <= MOST_SEARCHED_SLOTS:
            yield f"  depth: {{keep: searched, at_least: {least}}}    # which layers run"
        else:
            yield f"  depth: {{keep: every_other, layers: {_yaml(list(range(least, depth + 1)))}}}    # how many run"
    yield "  layers:"
    yield "    block:"
    for role in ("mixer", "cross", "ffn"):
        blocks = [getattr(layer, role) for layer in layers]
        if blocks[0] is None:
            continue
        if len({block.kind for block in blocks}) > 1 or any(layer.between for layer in layers):
            raise InputError(around.of, f"has layers of different kinds in its {stack}; a space around it can "
                                             "only be written by hand")
        yield f"      {role}:"
        yield from _layer_block(blocks, role, around)


def _similar(stack: str, around: SpaceOptions) -> Iterator[str]:
    """The choice of sharing weights where layers are similar, or why there is none."""
    known = around.similar.get(stack)
    if known is None or not around.searched("sharing"):
        return
    if known.sharing:
        yield f"  sharing: [none, {', '.join(known.sharing)}]    # weights to share: their cosine is {known.cosine:.2f}"
    else:
        yield f"  # sharing: no layers are similar enough to share weights (cosine at most {known.cosine:.2f})"


def _layer_block(blocks: list[BlockConfig], role: str, around: SpaceOptions) -> Iterator[str]:
    lists: dict[str, Any] = {}
    for name in blocks[0].filled():
        per_layer = [_values(block, name, role, around) for block in blocks]
        if any(other != per_layer[0] for other in per_layer):
            lists[name] = {"by_slot": per_layer}
        else:
            lists[name] = {"global": per_layer[0]} if around.uniform and len(per_layer[0]) > 1 else per_layer[0]
    yield from _block(blocks[0], 8, lists)


def _values(block: BlockConfig, name: str, role: str, around: SpaceOptions) -> list[Any]:
    """The choices of a dim. Query heads that share key/value heads stay, unless they are stored in groups: a slice
    would give them to other key/value heads."""
    dims = block.filled()
    whole = dims[name]
    if block.kind == "grouped_attention" and name in ("n_kv_heads", "queries") and around.searched("heads"):
        return _shares(int(whole), around, 1)
    if name == "n_kv_heads" and whole == dims.get("n_heads"):
        return ["n_heads"]
    if name == "n_heads" and around.searched("heads") and dims.get("n_kv_heads", whole) == whole:
        return _shares(int(whole), around, 1)
    if name == "inner" and role == "ffn" and around.searched("ffn"):
        return _shares(int(whole), around, hardware_step(int(whole)))
    return [whole]


def _block(block: BlockConfig, indent: int, lists: dict[str, Any]) -> Iterator[str]:
    yield f"{' ' * indent}{block.kind}:" + (" {}" if not block.filled() else "")
    optional = {dim.name for dim in kinds.get(block.kind).dims if dim.optional}
    for name, value in block.filled().items():
        if name not in optional or name in dict(block.dims):
            yield f"{' ' * (indent + 2)}{name}: {_yaml(lists.get(name) or [value])}"


def _widths(arch: Architecture, around: SpaceOptions) -> list[int]:
    """Not below the rank of the table, which is fixed where it is less than the width."""
    rank = int(arch.embedding.filled().get("rank", 0))
    widths = _shares(arch.width, around, hardware_step(arch.width)) if around.searched("width") else [arch.width]
    return [width for width in widths if rank == arch.width or width >= rank]


def _ranks(arch: Architecture, widths: Sequence[int], around: SpaceOptions) -> list[Any]:
    """A factorised table as an alternative to the full one, if the head can use it."""
    rank = arch.embedding.filled().get("rank")
    if rank != arch.width:
        return [] if rank is None else [rank]
    half = next((width // 2 // step * step for width in widths[:1] for step in HARDWARE_STEPS if width // 2 >= step), 0)
    return [half, "full"] if half and around.searched("rank") else ["full"]


def _sharing(stack: str, layers: tuple[Layer, ...]) -> str:
    """Raises InputError if the layers share weights in a way that a space file cannot express."""
    wanted = [(layer.mixer_slot, layer.ffn_slot) for layer in layers]
    for part in ("all", "attention", "ffn"):
        for text in (part, *(f"{part}/{n}" for n in range(2, len(layers)))):
            rule = Sharing.parse(text)
            if [(rule.leader("mixer", i), rule.leader("ffn", i)) for i in range(len(layers))] == wanted:
                return text
    raise InputError(stack, "its layers share weights in a way that a space file cannot express")


def _shares(whole: int, around: SpaceOptions, step: int) -> list[int]:
    """Values from the least share to the whole, each the same factor larger than the one before, because small models
    need small differences. They are multiples of a step that divides the whole."""
    shares = (around.least ** (1 - i / (around.choices - 1)) for i in range(around.choices))
    values = {max(round(whole * share / step), 1) * step for share in shares}
    return sorted({value for value in values if value >= around.least * whole - step / 2 and value < whole} | {whole})


def _yaml(value: Any) -> str:
    """A value in one line: JSON, but small numbers get a decimal point, because YAML would read them as text."""
    text = json.dumps(value)
    return re.sub(r"(?<![\d.])(\d+)(e[-+]?\d+)", r"\1.0\2", text) if _has_float(value) else text


def _has_float(value: Any) -> bool:
    return isinstance(value, float) or isinstance(value, list) and any(isinstance(item, float) for item in value)
