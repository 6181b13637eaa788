"""How many groups a group linear map may have; declarations of blocks use it, so it needs no torch."""

from __future__ import annotations

import math


def most_groups(width: int) -> int:
    """The rule of DeLighT's released code: the power of two with about 32 channels per group."""
    return int(2 ** max(math.ceil(math.log2(width / 32)), 0))
