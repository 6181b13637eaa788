"""What can be requested of `doctor`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DoctorRequest:
    """Examine this machine; there is nothing to choose."""
