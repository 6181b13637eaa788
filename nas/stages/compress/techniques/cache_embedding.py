"""Cached embeddings: one table replaces the modules that compute token embeddings."""

from __future__ import annotations

from typing import ClassVar

from nas.stages.compress.technique import CompressionContext, Technique
from supernet import Transformer
from supernet.compression.cached import cache_embedding
from supernet.train.recipe import Recipe


class CacheEmbedding(Technique):
    """Stores the embedding of every token: more memory, less time."""

    name: ClassVar[str] = "cache-embedding"
    help: ClassVar[str] = "Store the computed embedding of every word (DeFINE, adaptive input): larger but faster"

    @property
    def suffix(self) -> str:
        """`cached`."""
        return "cached"

    def check(self, model: Transformer, recipe: Recipe) -> None:
        """Refuse what is quantised, or has no embedding to cache."""
        super().check(model, recipe)
        cache_embedding(model)

    def apply(self, context: CompressionContext) -> Transformer:
        """The model with a plain table."""
        return cache_embedding(context.model)
