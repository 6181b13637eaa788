"""Transports: one file for each way to reach a device, found by its name. `Base` is the contract of such a file."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from hardware_profiles.transports._base import Waiting as Waiting
from search_spaces.errors import InputError
from search_spaces.lazy import lazy

if TYPE_CHECKING:
    from hardware_profiles.transports._base import STORED, Base, Job, Model, TransportSettings, Waiting, safe_name
    from hardware_profiles.transports._rounds import check_rounds, check_stored

__all__ = ["STORED", "Base", "Job", "Model", "TransportSettings", "Waiting", "check_rounds", "check_stored", "get",
           "make", "names", "safe_name"]
_BASE, _ROUNDS = f"{__name__}._base", f"{__name__}._rounds"
__getattr__ = lazy(__name__, {"STORED": _BASE, "Base": _BASE, "Job": _BASE, "Model": _BASE, "TransportSettings": _BASE,
                              "Waiting": _BASE, "safe_name": _BASE, "check_rounds": _ROUNDS, "check_stored": _ROUNDS})


@lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """The transports of this folder."""
    found = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return tuple(sorted(name for name in found if not name.startswith("_")))


def get(name: str) -> Any:
    """The module of a transport: `SETTINGS` and `TRANSPORT`. Raises InputError where there is none."""
    if name not in names():
        raise InputError("transport", f"{name!r} is unknown; allowed: {', '.join(names())}")
    return importlib.import_module(f"{__name__}.{name}")


def make(settings: Mapping[str, Any], device_name: str) -> Any:
    """The transport of what a device's YAML says under `transport`. Raises InputError for what is not allowed."""
    module = get(settings["kind"])
    try:
        made = module.SETTINGS(**{name: value for name, value in settings.items() if name != "kind"})
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(["transport", *map(str, fault["loc"])])
        raise InputError(device_name, f"{where}: {fault['msg'].removeprefix('Value error, ')}") from None
    return module.TRANSPORT(made, device_name)
