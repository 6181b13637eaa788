"""Runtimes: one file each, found by its name.

README.md of this folder describes such a file. User runtimes come from packages, through the entry-point group
`nas.runtimes`, or from single files: see `search_spaces.plugins`.
"""

from __future__ import annotations

from types import ModuleType

from search_spaces.plugins import ModuleRegistry

ROOFLINE = "roofline"
"""The runtime name of devices that are estimated from their specification."""
COMPILES = ("compile", "call")
"""Additional names of a runtime file that has a suffix."""


class _Runtimes(ModuleRegistry):
    def required_of(self, module: ModuleType) -> tuple[str, ...]:
        """Runtimes that compile need more names."""
        return (*self.required, *(COMPILES if getattr(module, "SUFFIX", "") else ()))


_registry = _Runtimes(__name__, "nas.runtimes", "runtime", ("SUFFIX", "PRECISIONS", "OPTIONS", "missing", "versions",
                                                            "load"))
names, get = _registry.names, _registry.get
