"""Transports: one file for each way to reach a device, found by its name; `_base.py` has the contract of such a file.

User transports come from packages, through the entry-point group `nas.transports`, or from single files: see
`search_spaces.plugins`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from hardware_profiles.transports._base import Waiting as Waiting
from search_spaces.errors import InputError
from search_spaces.files.reading import first_fault
from search_spaces.lazy import lazy
from search_spaces.plugins import ModuleRegistry

if TYPE_CHECKING:
    from hardware_profiles.transports._base import STORED, Base, Job, Model, TransportSettings, Waiting, safe_name
    from hardware_profiles.transports._rounds import check_rounds, check_stored

__all__ = ["STORED", "Base", "Job", "Model", "TransportSettings", "Waiting", "check_rounds", "check_stored", "get",
           "make", "names", "refuse_memory", "safe_name"]
_BASE, _ROUNDS = f"{__name__}._base", f"{__name__}._rounds"
__getattr__ = lazy(__name__, {"STORED": _BASE, "Base": _BASE, "Job": _BASE, "Model": _BASE, "TransportSettings": _BASE,
                              "Waiting": _BASE, "safe_name": _BASE, "check_rounds": _ROUNDS, "check_stored": _ROUNDS})
_registry = ModuleRegistry(__name__, "nas.transports", "transport",
                           ("TRANSPORT", "HELP", "SETTINGS", "TOOL", "missing"))
names, get = _registry.names, _registry.get


def refuse_memory(device_name: str, kind: str) -> InputError:
    """The error if the peak memory cannot be measured."""
    able = ", ".join(name for name in names() if get(name).TRANSPORT.MEMORY)
    return InputError(device_name, f"the peak memory of a model cannot be measured over the transport {kind}; "
                                   f"transports that can: {able}")


def make(settings: Mapping[str, Any], device_name: str) -> Any:
    """The transport of what a device's YAML says under `transport`. Raises InputError for what is not allowed."""
    module = get(settings["kind"])
    try:
        validated = module.SETTINGS(**{name: value for name, value in settings.items() if name != "kind"})
    except ValidationError as error:
        fault = first_fault(error)
        where = ".".join(filter(None, ["transport", fault.key]))
        raise InputError(device_name, f"{where}: {fault.message}") from None
    return module.TRANSPORT(validated, device_name)
