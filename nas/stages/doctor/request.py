"""The request of the stage `doctor`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DoctorRequest:
    """Check this machine; it has no options."""
