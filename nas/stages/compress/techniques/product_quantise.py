"""Product quantisation of embedding tables: every row is composed of sub-vectors from small codebooks."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from scipy.cluster.vq import kmeans2
from torch import Tensor, nn

from nas.stages.compress.technique import CompressionContext, Technique
from search_spaces import InputError
from search_spaces.errors import Option
from supernet import Transformer
from supernet.compression.matrices import plain_model
from supernet.train.recipe import Recipe


class ProductQuantise(Technique):
    """The rows of embedding tables, cut into sub-vectors; each is replaced by the nearest of 2^bits centroids.

    Codebooks come from k-means, one for every place of a sub-vector in a row. The model computes with the reconstructed
    table; on disk it is codes and codebooks (`supernet.compression.codebooks`). A tied head uses the same table.
    """

    name: ClassVar[str] = "product-quantise"
    help: ClassVar[str] = "Product-quantise embedding tables: store sub-vectors as codes of BITS bits"
    value: ClassVar[str | None] = "bits"
    options: ClassVar[tuple[str, ...]] = ("subvector",)
    bits: int = Field(ge=1, le=8, description="bits of a code: a codebook has 2^bits sub-vectors")
    subvector: int = Field(8, ge=1, description="size of a sub-vector; rounded down to a divisor of the width of a "
                                                "table")
    rounds: int = Field(25, ge=1, description="iterations of k-means")

    @property
    def suffix(self) -> str:
        """`pq`."""
        return "pq"

    def check(self, model: Transformer, recipe: Recipe) -> None:
        """Refuse what is quantised, and a model whose tables have too few rows for codes to save anything."""
        super().check(model, recipe)
        if not self._tables(model):
            raise InputError(Option(self.name), f"no embedding table has more than {2**self.bits} rows; use fewer "
                                                "bits")

    def apply(self, context: CompressionContext) -> Transformer:
        """Replace the tables with the values that their codes represent."""
        tables = {name: self._reconstructed(table.detach().cpu().float(), context.recipe.seed)
                  for name, table in self._tables(context.model).items()}
        return plain_model(context.model.arch, {**context.model.state_dict(), **tables})

    def summary(self, before: Transformer, after: Transformer) -> dict[str, Any]:
        """The settings, and the relative error of the tables (root mean square)."""
        old, new = (torch.cat([tensor.detach().flatten() for tensor in self._tables(model).values()])
                    for model in (before, after))
        error = float((new - old).norm() / old.norm())
        return {"bits": self.bits, "subvector": self.subvector, "table_error": round(error, 6)}

    def _tables(self, model: Transformer) -> dict[str, Tensor]:
        """Embedding tables with more rows than a codebook has sub-vectors."""
        return {f"{name}.weight": module.weight for name, module in model.named_modules()
                if isinstance(module, nn.Embedding) and module.num_embeddings > 2**self.bits}

    def _reconstructed(self, table: Tensor, seed: int) -> Tensor:
        width = table.shape[1]
        size = max(n for n in range(1, min(self.subvector, width) + 1) if width % n == 0)
        blocks = []
        for place, block in enumerate(torch.split(table, size, dim=1)):
            books, codes = kmeans2(block.double().numpy(), 2**self.bits, iter=self.rounds, minit="++",
                                   missing="warn", seed=np.random.default_rng(seed + place))
            blocks.append(torch.from_numpy(books)[torch.from_numpy(codes).long()])
        return torch.cat(blocks, dim=1).to(table.dtype)
