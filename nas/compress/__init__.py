"""Ways to make a subnet smaller: one file each. The folder is scanned; `stage.py` does what is the same for all."""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nas.compress._base import Technique


@lru_cache(maxsize=1)
def techniques() -> dict[str, type[Technique]]:
    """Every technique by the option that asks for it."""
    from nas.compress._base import Technique

    for info in pkgutil.iter_modules(__path__, f"{__name__}."):
        importlib.import_module(info.name)
    return {found.name: found for found in Technique.__subclasses__()}
