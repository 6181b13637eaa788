"""What a residual declares, and the registry of those that are installed.

A residual is a way to add a sub-layer to the stream of hidden states, norms included. It is declared once, beside its
module, in one file of the folder `supernet.residuals`, or in a package (entry-point group `nas.residuals`) or file of
the user. An architecture names one; `supernet/residuals/README.md` has the contract of its module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from search_spaces import plugins
from search_spaces.errors import Fault
from search_spaces.kind import PLACEMENTS, Facts, Value

FOLDER, GROUP = "supernet.residuals", "nas.residuals"
PLAIN = "plain"
"""The default residual."""


@dataclass(frozen=True)
class ResidualKind:
    """A way to add a sub-layer to the stream.

    Args:
        name: as written in space files; unique over all installed packages.
        module: called with the block and, as keyword arguments, the named facts; returns the plain `nn.Module`.
        facts: the fields of `Facts` the module takes.
        closing_norm: by the facts, whether a norm follows the last layer of a stack.
        help: one line for the reference.
    """

    name: str
    module: Callable[..., Any]
    facts: tuple[str, ...] = ()
    closing_norm: Callable[[Facts], bool] = lambda facts: False
    help: str = ""

    @property
    def unit_facts(self) -> tuple[str, ...]:
        """The facts that every sub-layer's unit has; the default residual is not named, so that its units keep the
        names they have in the files of profiles."""
        return ("width", *self.facts) if self.name == PLAIN else ("width", *self.facts, "residual")


def get(name: str) -> ResidualKind:
    """The residual of that name. Raises KeyError with the available names."""
    try:
        return registry()[name]
    except KeyError:
        raise KeyError(f"unknown residual {name!r}; installed: {', '.join(names())}") from None


def names() -> list[str]:
    """The installed residuals, the default first."""
    return sorted(registry(), key=lambda name: (name != PLAIN, name))


@plugins.cached
def registry() -> dict[str, ResidualKind]:
    """Every installed residual by name."""
    return plugins.declarations(FOLDER, GROUP, ResidualKind, _faults)


def unread_settings(settings: Mapping[str, Value]) -> tuple[str, ...]:
    """The settings that have no effect on an architecture: a residual may place no norms."""
    return () if "placement" in get(str(settings.get("residual", PLAIN))).facts else ("placement",)


def canonical_settings(settings: Mapping[str, Value]) -> dict[str, Value]:
    """The settings of an architecture, those without effect at their default."""
    return {**settings, **dict.fromkeys(unread_settings(settings), PLACEMENTS[0])}


def _faults(residual: ResidualKind) -> Iterator[Fault]:
    known = [field.name for field in fields(Facts)]
    for name in residual.facts:
        if name not in known:
            yield Fault(residual.name, f"requests the unknown fact {name!r}; known facts: {', '.join(known)}")
