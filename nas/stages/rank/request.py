"""The request of the stage `rank`."""

from __future__ import annotations

from dataclasses import dataclass

from search_spaces.errors import Command


@dataclass(frozen=True)
class RankRequest:
    """How well a trained supernet ranks architectures.

    Args:
        n: architectures that are trained from scratch, 4 or more.
        steps: of each; as many as the supernet's by default.
        workers: parallel training runs; with more than one, they use the Ray cluster at the address `ray`.
    """

    run: str
    n: int = 20
    steps: int | None = None
    workers: int = 1
    ray: str = "local"

    def command(self) -> Command:
        """The command of this request."""
        on_ray = {"workers": self.workers, "ray": self.ray} if self.workers > 1 else {}
        return Command("rank", self.run, n=self.n, steps=self.steps, **on_ray)
