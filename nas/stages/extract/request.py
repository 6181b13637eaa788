"""The request of the stage `extract`."""

from __future__ import annotations

from dataclasses import dataclass

from nas.core.picking import Choice


@dataclass(frozen=True)
class ExtractRequest:
    """Architectures to extract from a run's supernet.

    Args:
        run: a run that was searched.
        choice: selection among evaluated architectures; None for the space's smallest and largest.

    Raises:
        InputError: there is not exactly one selection.
    """

    run: str
    choice: Choice | None = None

    def __post_init__(self) -> None:
        if self.choice is not None:
            self.choice.check()
