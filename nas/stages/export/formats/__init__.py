"""Export formats: one file each, found by its name; README.md of this folder has the contract.

User formats come from packages, through the entry-point group `nas.formats`, or from single files: see
`search_spaces.plugins`.
"""

from __future__ import annotations

from search_spaces.errors import Option
from search_spaces.plugins import ModuleRegistry

_registry = ModuleRegistry(__name__, "nas.formats", "format", ("DYNAMIC", "HELP", "INT8", "missing", "write", "load"),
                           Option("format"))
names, get = _registry.names, _registry.get
