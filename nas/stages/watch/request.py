"""The request of the stage `watch`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WatchRequest:
    """The state of a run, which another process may be working on."""

    run: str
