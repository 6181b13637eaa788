"""Architectures as values, search spaces, and the units of architectures."""

from typing import TYPE_CHECKING

from search_spaces.lazy import lazy

if TYPE_CHECKING:
    from search_spaces.architecture import Architecture, Layer
    from search_spaces.block import BlockConfig
    from search_spaces.errors import Fault, InputError
    from search_spaces.files.loader import load_architecture, load_space, shipped_spaces
    from search_spaces.space.search_space import SearchSpace

__all__ = ["Architecture", "BlockConfig", "Fault", "InputError", "Layer", "SearchSpace", "load_architecture",
           "load_space", "shipped_spaces"]
_ARCHITECTURE, _ERRORS, _LOADER = (f"{__name__}.{module}" for module in ("architecture", "errors", "files.loader"))
__getattr__ = lazy(__name__, {
    "Architecture": _ARCHITECTURE, "Layer": _ARCHITECTURE, "BlockConfig": f"{__name__}.block", "Fault": _ERRORS,
    "InputError": _ERRORS, "SearchSpace": f"{__name__}.space.search_space", "load_architecture": _LOADER,
    "load_space": _LOADER, "shipped_spaces": _LOADER})
