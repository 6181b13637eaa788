"""Which slots a stack keeps, which layers share a slot, and how blocks scale along the depth."""

from __future__ import annotations

from dataclasses import dataclass

SHARED_PARTS = {"none": (), "attention": ("mixer",), "ffn": ("ffn",), "all": ("mixer", "ffn")}


def _is_count(text: str) -> bool:
    """Whether a text is a whole number of at most nine digits; `isdigit` alone also accepts superscripts."""
    return text.isdecimal() and len(text) <= 9


def every_other(n_slots: int, n_kept: int) -> tuple[int, ...]:
    """LayerDrop's rule: keep `n_kept` of `n_slots` layers, evenly spread, the first always."""
    return tuple(i * n_slots // n_kept for i in range(n_kept))


@dataclass(frozen=True)
class Sharing:
    """Cross-layer sharing: which part is shared (`none`, `attention`, `ffn`, `all`), in groups of how many.

    Written `all`, or `all/2` for groups of two consecutive layers.
    """

    scope: str
    group: int | None = None

    @classmethod
    def parse(cls, text: object) -> Sharing:
        """Raises ValueError with what is allowed."""
        scope, slash, group = str(text).partition("/")
        whole = _is_count(group) and int(group) >= 2
        if scope not in SHARED_PARTS or (slash and (not whole or scope == "none")):
            raise ValueError(f"{text!r} is not allowed; allowed: none, attention, ffn, all, or with groups of k >= 2 "
                             "consecutive layers attention/k, ffn/k, all/k")
        return cls(scope, int(group) if group else None)

    def leader(self, part: str, position: int) -> int:
        """The position of the layer whose `part` (`mixer` or `ffn`) this layer uses."""
        if part not in SHARED_PARTS[self.scope]:
            return position
        return 0 if self.group is None else position - position % self.group

    def owners(self, depth: int) -> int:
        """Number of parts that a stack of that depth stores; defines smallest and largest."""
        return sum(self.leader(part, i) == i for part in ("mixer", "ffn") for i in range(depth))


@dataclass(frozen=True)
class Scaling:
    """DeLighT's block-wise scaling: from `n_min` transformations in the first block to `n_max` in the last.

    Args:
        n_min: DExTra depth of the first block.
        n_max: DExTra depth of the last block.
        multiplier: width multiplier of the first block.
        descending: whether the blocks come in the opposite order.
    """

    n_min: int
    n_max: int
    multiplier: float
    descending: bool = False

    @classmethod
    def parse_depths(cls, text: object) -> tuple[int, int]:
        """(n_min, n_max) of a text such as `4-8`. Raises ValueError with what is allowed."""
        low, dash, high = str(text).partition("-")
        if not (dash and _is_count(low) and _is_count(high) and int(low) >= 1):
            raise ValueError(f"{text!r} is not allowed; allowed: N_min-N_max in quotes, such as '4-8'")
        if int(low) > int(high):
            raise ValueError(f"{text!r} is not allowed: N_min {low} is greater than N_max {high}; "
                             "write the smaller first and use order: descending to reverse the blocks")
        return int(low), int(high)

    def at(self, position: int, depth: int) -> dict[str, int | float]:
        """Depth and width multiplier of the DExTra unit in block `position` of `depth`."""
        block = depth - 1 - position if self.descending else position
        last = max(depth - 1, 1)
        return {
            "scaled_depth": self.n_min + (self.n_max - self.n_min) * block // last,
            "scaled_multiplier": round(self.multiplier + (self.n_max / self.n_min - 1) * block / last, 3),
        }

    def first(self) -> dict[str, int | float]:
        """The values for the embedding: minimum depth and multiplier."""
        return {"scaled_depth": self.n_min, "scaled_multiplier": round(self.multiplier, 3)}
