"""Weights: plain blocks, the plain model of an architecture, and the shared weight store."""

from typing import TYPE_CHECKING

from search_spaces.lazy import lazy

if TYPE_CHECKING:
    from supernet.extraction import extract
    from supernet.supernet import Supernet
    from supernet.transformer import Transformer

__all__ = ["Supernet", "Transformer", "extract"]
__getattr__ = lazy(__name__, {"Supernet": "supernet.supernet", "Transformer": "supernet.transformer",
                              "extract": "supernet.extraction"})
