"""Transports: one file for each way to reach a device, found by its name; `_base.py` has the contract of such a file.

User transports come from packages, through the entry-point group `nas.transports`, or from single files: see
`search_spaces.plugins`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from hardware_profiles.transports._base import Waiting as Waiting
from search_spaces import plugins
from search_spaces.errors import InputError
from search_spaces.lazy import lazy

if TYPE_CHECKING:
    from hardware_profiles.transports._base import STORED, Base, Job, Model, TransportSettings, Waiting, safe_name
    from hardware_profiles.transports._rounds import check_rounds, check_stored

__all__ = ["STORED", "Base", "Job", "Model", "TransportSettings", "Waiting", "check_rounds", "check_stored", "get",
           "make", "names", "safe_name"]
GROUP = "nas.transports"
HOLDS = ("HELP", "SETTINGS", "TRANSPORT", "TOOL", "missing")
"""Required names of a file."""
_BASE, _ROUNDS = f"{__name__}._base", f"{__name__}._rounds"
__getattr__ = lazy(__name__, {"STORED": _BASE, "Base": _BASE, "Job": _BASE, "Model": _BASE, "TransportSettings": _BASE,
                              "Waiting": _BASE, "safe_name": _BASE, "check_rounds": _ROUNDS, "check_stored": _ROUNDS})


def names() -> tuple[str, ...]:
    """What transports are called: the names of their files with dashes."""
    return tuple(sorted(_registry()))


def get(name: str) -> Any:
    """The module of a transport. Raises InputError if there is none."""
    try:
        return _registry()[name]
    except KeyError:
        raise InputError("transport", f"{name!r} is unknown; allowed: {', '.join(names())}") from None


@plugins.cached
def _registry() -> dict[str, ModuleType]:
    modules = list(plugins.extensions(__name__, GROUP, lambda module: hasattr(module, "TRANSPORT")))
    for plugin in modules:
        plugins.check_holds(plugin, HOLDS, "transport")
    return plugins.by_file_name(modules, "transport")


def make(settings: Mapping[str, Any], device_name: str) -> Any:
    """The transport of what a device's YAML says under `transport`. Raises InputError for what is not allowed."""
    module = get(settings["kind"])
    try:
        validated = module.SETTINGS(**{name: value for name, value in settings.items() if name != "kind"})
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(["transport", *map(str, fault["loc"])])
        raise InputError(device_name, f"{where}: {fault['msg'].removeprefix('Value error, ')}") from None
    return module.TRANSPORT(validated, device_name)
