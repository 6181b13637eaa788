"""Run a model on a batch: the supernet with an architecture, or the architecture's own plain model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from search_spaces.architecture import Architecture
from supernet.batch import Batch
from supernet.supernet import Supernet
from supernet.train.recipe import Recipe


def predict(model: nn.Module, arch: Architecture, batch: Batch, recipe: Recipe,
            outputs: Sequence[str] | None = None) -> Any:
    """The logits of an architecture on a batch that is on the model's device, in the recipe's precision.

    Args:
        outputs: what to return instead, by name: see `Transformer.forward`.
    """
    with precision(recipe, batch.tokens.device):
        return run_model(model, arch, batch, outputs)


def precision(recipe: Recipe, device: torch.device) -> torch.autocast:
    """The compute precision of a recipe on a device."""
    return torch.autocast(device.type, torch.bfloat16, enabled=in_bf16(recipe, device))


def in_bf16(recipe: Recipe, device: torch.device) -> bool:
    """Whether a recipe computes in bfloat16; a GPU that only emulates it would be slower than in float32."""
    return recipe.precision == "bf16" or (recipe.precision == "auto" and device.type == "cuda" and
                                          torch.cuda.is_bf16_supported(including_emulation=False))


def run_model(model: nn.Module, arch: Architecture, batch: Batch, outputs: Sequence[str] | None = None) -> Any:
    """The logits (or `outputs`) of an architecture on a batch, in the supernet or in its own plain model."""
    inputs = (batch.tokens,) if batch.target is None else (batch.tokens, batch.target)
    others = {"mask": batch.mask, "target_mask": batch.target_mask, "types": batch.types if arch.n_types > 1 else None}
    if isinstance(model, Supernet):
        return model(arch, *inputs, **others, outputs=outputs)
    return model(*inputs, **others, arch=arch, outputs=outputs)
