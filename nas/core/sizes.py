"""Sizes that suit the hardware."""

from __future__ import annotations

HARDWARE_STEPS = (32, 16, 8)
"""Widths that are multiples of these suit the vector units of processors, the preferred ones first."""


def hardware_step(size: int, least: int = 1) -> int:
    """The first of `HARDWARE_STEPS` that divides a size into at least so many steps; 1 if none does.

    Args:
        least: how many different sizes are needed: 1 to choose a few of them, more to shrink by small amounts.
    """
    return next((step for step in HARDWARE_STEPS if size % step == 0 and size // step >= least), 1)
