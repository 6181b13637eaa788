"""Weights: plain blocks, the plain model of an architecture, and the store that all of them share."""

from supernet.extract import extract
from supernet.supernet import Supernet
from supernet.transformer import Transformer

__all__ = ["Supernet", "Transformer", "extract"]
