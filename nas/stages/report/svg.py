"""Draws an architecture layer by layer to scale: the wider a box, the more channels.

Each box has its label above it, as labels are often longer than boxes are wide, and a cell for each head. Shared
weights have a dashed edge and a bracket to the first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape

from nas.core.describing import block_words, channels, drawn_parts, style_of
from search_spaces import Architecture, BlockConfig, Layer

WIDTH, LEFT, RIGHT = 360, 34, 18
"""Width of the picture; margins for numbers and brackets."""
ROOM = WIDTH - LEFT - RIGHT
"""Width of the widest box."""
LABEL, BOX, ROW, GAP, EMPTY = 15, 14, 37, 6, 16
"""Heights of a label, a box, both with the space below, the gap between layers, and an empty slot."""
CHARACTER = 6
"""Approximate width of a character in a small label."""
MIDDLE = LEFT + ROOM / 2
STYLE = """
.arch{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
.arch text{fill:#1c2430;text-anchor:middle}.arch .small{opacity:.75;font-size:10.5px}
.arch .side{text-anchor:end;opacity:.75;font-size:11px}.arch .stack{text-anchor:start;font-weight:600}
.arch .attends{fill:#2f6fb3;stroke:#2f6fb3}.arch .convolves{fill:#0f8a70;stroke:#0f8a70}
.arch .deep{fill:#7a5cc2;stroke:#7a5cc2}.arch .cross{fill:#b0529a;stroke:#b0529a}
.arch .ffn{fill:#c0651a;stroke:#c0651a}.arch .end{fill:#6b7686;stroke:#6b7686}.arch .other{fill:#8a7a22;stroke:#8a7a22}
.arch .box{fill-opacity:.3;stroke-width:1.2}.arch .again{fill-opacity:.08;stroke-dasharray:4 3}
.arch .bracket{fill-opacity:0;stroke-width:1.5}.arch .gone{fill-opacity:0;stroke:#6b7686;stroke-dasharray:3 3}
.arch .layer{fill:#6b7686;fill-opacity:.07}
"""


@dataclass(frozen=True)
class _Box:
    """A box: channels, CSS class and heads; `to` if it narrows or widens."""

    channels: float
    name: str
    heads: int = 1
    to: float | None = None


def draw(arch: Architecture, slots: Mapping[str, int], widest: int) -> str:
    """The SVG of an architecture, without a style.

    Args:
        slots: how many each stack of the space has; those that were left out are drawn empty.
        widest: the most channels of all drawings, so that they have the same scale.
    """
    picture = _Picture(arch.width, ROOM / widest)
    for i, (name, layers) in enumerate(arch.stacks.items()):
        if i == 0 or not arch.share_inputs:
            picture.block(arch.embedding, _ends(arch.embedding, arch.width, True))
        picture.stack(name if len(arch.stacks) > 1 else "", layers, slots.get(name, len(layers)))
    picture.block(arch.head, _ends(arch.head, arch.width, False))
    return picture.svg(f"Drawing of the architecture {arch.key[:12]}: {arch.depth} layers")


def draw_block(block: BlockConfig, role: str, width: int) -> str:
    """The SVG of one block in a model of that width, without a style."""
    ends = {"embedding": True, "head": False}
    boxes = _ends(block, width, ends[role]) if role in ends else _boxes(role, block, width)
    picture = _Picture(width, ROOM / max(width, sum(max(box.channels, box.to or 0) for box in boxes)))
    picture.block(block, boxes)
    return picture.svg(f"Drawing of the block {block.kind}")


def standalone(svg: str) -> str:
    """A drawing as a file of its own."""
    head, rest = svg.split(">", 1)
    return f"{head} xmlns=\"http://www.w3.org/2000/svg\"><style>{STYLE}</style>{rest}\n"


def widest_of(archs: Mapping[str, Architecture]) -> int:
    """The most channels that a box of these architectures has."""
    return max((width for arch in archs.values() for width in _widths(arch)), default=1)


def _widths(arch: Architecture) -> Iterator[int]:
    yield arch.width
    for layers in arch.stacks.values():
        for layer in layers:
            yield from (channels(block, arch.width) for _, block, _ in layer.parts())


def _ends(block: BlockConfig, width: int, first: bool) -> list[_Box]:
    """An embedding widens from its rank to the model's width, a head narrows."""
    rank = channels(block, width)
    return [_Box(rank, "end", to=width) if first else _Box(width, "end", to=rank)]


def _boxes(role: str, block: BlockConfig, width: int) -> list[_Box]:
    """The boxes of a block of a layer, side by side."""
    return [_Box(part.channels, style_of(role, part), part.heads) for part in drawn_parts(block, width)]


class _Picture:
    """Grows downwards, box by box."""

    def __init__(self, width: int, scale: float) -> None:
        self.width, self.scale, self.y = width, scale, 1.0
        self.parts: list[str] = []

    def stack(self, name: str, layers: tuple[Layer, ...], n_slots: int) -> None:
        """The layers of a stack, brackets around what shares weights, and empty slots."""
        self.y += GAP
        if name:
            self.parts.append(_text(LEFT, self.y + 12, name, "stack"))
            self.y += 20
        used = [layer.mixer_slot for layer in layers]
        plain = len(set(used)) == len(layers) == len({layer.ffn_slot for layer in layers})
        uses: dict[tuple[str, int], list[float]] = {}
        place = 0
        for slot in range(n_slots) if plain else used:
            if plain and slot not in used:
                self._empty(f"slot {slot} unused")
                continue
            self._layer(place, layers[place], uses)
            place += 1
        if not plain and n_slots > len(layers):
            self._empty(f"{n_slots - len(layers)} of {n_slots} slots unused")
        for (role, _), heights in uses.items():
            if len(heights) > 1:
                self._bracket(role, heights)

    def _layer(self, place: int, layer: Layer, uses: dict[tuple[str, int], list[float]]) -> None:
        height = ROW * len(list(layer.parts()))
        self._rect("layer", LEFT - 4, self.y, ROOM + 8, height)
        self.parts.append(_text(LEFT - 14, self.y + height / 2 + 4, str(place), "side"))
        for role, block, slot in layer.parts():
            before = uses.setdefault((role, slot), [])
            before.append(self.y + LABEL + BOX / 2 + 3)
            self.block(block, _boxes(role, block, self.width), again=len(before) > 1)
        self.y += GAP

    def block(self, block: BlockConfig, boxes: list[_Box], again: bool = False) -> None:
        """The boxes of a block side by side in the middle, and its label above them."""
        self.parts.append(_text(MIDDLE, self.y + LABEL - 1, block_words(block, self.width)))
        x = MIDDLE - sum(max(box.channels, box.to or 0) for box in boxes) * self.scale / 2
        for box in boxes:
            width = max(box.channels, box.to or 0) * self.scale
            self._box(x, width, box, again)
            x += width
        self.y += ROW

    def _box(self, x: float, width: float, box: _Box, again: bool) -> None:
        name, y = f"box {box.name}{' again' if again else ''}", self.y + LABEL + 3
        if box.to is None:
            self._rect(name, x, y, width, BOX)
            cell = width / box.heads
            if box.heads > 1 and cell >= 2:  # otherwise heads would be too narrow
                cuts = "".join(f"M{x + i * cell:.1f} {y:.1f}v{BOX}" for i in range(1, box.heads))
                self.parts.append(f'<path class="heads {box.name}" d="{cuts}"/>')
            return
        middle, top, bottom = x + width / 2, box.channels * self.scale / 2, box.to * self.scale / 2
        corners = ((middle - top, y), (middle + top, y), (middle + bottom, y + BOX), (middle - bottom, y + BOX))
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in corners)
        self.parts.append(f'<polygon class="{name}" points="{points}" stroke-linejoin="round"/>')

    def _rect(self, name: str, x: float, y: float, width: float, height: float) -> None:
        self.parts.append(f'<rect class="{name}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" '
                          'rx="3"/>')

    def _empty(self, label: str) -> None:
        width = max(self.width * self.scale, CHARACTER * len(label) + 12)  # its edges would cross the label
        self._rect("gone", MIDDLE - width / 2, self.y, width, EMPTY)
        self.parts.append(_text(MIDDLE, self.y + EMPTY / 2 + 4, label, "small"))
        self.y += EMPTY + GAP

    def _bracket(self, role: str, heights: list[float]) -> None:
        """Mixers on the left, feed-forwards on the right."""
        edge, tick = {"mixer": (3, 6), "cross": (7, 6), "ffn": (WIDTH - 3, -6)}[role]
        ticks = "".join(f"M{edge} {y:.1f}h{tick}" for y in heights)
        self.parts.append(f'<path class="bracket end" d="M{edge} {heights[0]:.1f}V{heights[-1]:.1f}{ticks}"/>')

    def svg(self, title: str) -> str:
        """The whole picture."""
        return (f'<svg class="arch" viewBox="0 0 {WIDTH} {self.y + 2:.0f}" width="{WIDTH}" role="img" '
                f'aria-label="{escape(title)}">{"".join(self.parts)}</svg>')


def _text(x: float, y: float, text: str, name: str = "label") -> str:
    return f'<text class="{name}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
