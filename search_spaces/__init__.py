"""Architectures as values, search spaces, and the units of architectures."""

from search_spaces.architecture import Architecture, Layer
from search_spaces.block import BlockConfig
from search_spaces.errors import Fault, InputError
from search_spaces.files.loader import load_architecture, load_space, shipped_spaces
from search_spaces.space.search_space import SearchSpace

__all__ = ["Architecture", "BlockConfig", "Fault", "InputError", "Layer", "SearchSpace", "load_architecture",
           "load_space", "shipped_spaces"]
