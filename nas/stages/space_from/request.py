"""The request of the stage `space-from`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nas.core.space_around import DIMENSIONS, SimilarLayers, SpaceOptions
from search_spaces import InputError
from search_spaces.errors import Option

MOST_CHOICES = 64


@dataclass(frozen=True)
class SpaceFromRequest:
    """A space whose largest architecture is a subnet.

    Args:
        subnet: a folder, or RUN/KEY, where KEY is a prefix of its key.
        out: the YAML file; by default the name of the subnet's folder and `.yaml`.
        keep: dimensions that stay as they are, of `DIMENSIONS`; `all` for all of them.
        least: the smallest share of a dimension.
        choices: maximum number of values of a dimension.
        uniform: whether all layers of an architecture have the same dims, as stock classes of transformers require.
        classes: number of classes of a new classifier that replaces the head of an encoder; None keeps the head.

    Raises:
        InputError: a value is not allowed.
    """

    subnet: str
    out: Path | None = None
    keep: tuple[str, ...] = ()
    least: float = 0.3
    classes: int | None = None
    uniform: bool = False
    choices: int = 4

    def __post_init__(self) -> None:
        for name in self.keep:
            if name not in (*DIMENSIONS, "all"):
                raise InputError(str(Option("keep")), f"{name!r} is not allowed; allowed: {', '.join(DIMENSIONS)}, all")
        if not 0 < self.least <= 1:
            raise InputError(str(Option("least")), f"{self.least:g} is not allowed; allowed: more than 0, at most 1")
        if not 2 <= self.choices <= MOST_CHOICES:
            raise InputError(str(Option("choices")), f"{self.choices} is not allowed; allowed: 2 to {MOST_CHOICES}")
        if self.classes is not None and self.classes < 2:
            raise InputError(str(Option("classes")), f"{self.classes} is not allowed; allowed: 2 or more")

    def around(self, similar: Mapping[str, SimilarLayers]) -> SpaceOptions:
        """What the space searches around a model with such layers."""
        return SpaceOptions(self.subnet, self.keep, self.least, self.uniform, self.choices, similar)

    @property
    def searches_sharing(self) -> bool:
        """Whether similar layers may share weights."""
        return not {"sharing", "all"} & {*self.keep}
