"""The maths of each kind of block against a slow reference."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from search_spaces.block import BlockConfig
from search_spaces.units import make_unit
from supernet.build import build_unit, fresh
from tests.contracts.examples import FACTS


def block(kind: str, seed: int = 0, role: str = "mixer", facts: dict[str, Any] | None = None, **dims: Any) -> Any:
    """A block alone, in eval mode, all of its tensors random; the width is 32, and the context 128."""
    known = dataclasses.replace(FACTS, **{"context": 128, **(facts or {})})
    unit = make_unit(role, BlockConfig.of(kind, dims), known)
    generator = torch.Generator().manual_seed(seed)
    module = fresh(build_unit(unit), generator).eval()
    with torch.no_grad():
        for tensor in module.parameters():
            tensor.add_(torch.randn(tensor.shape, generator=generator) * 0.1)
    return module.block.requires_grad_(False)


def tokens(n: int, width: int = 32, seed: int = 0, batch: int = 2) -> Tensor:
    """Hidden states (batch, n, width)."""
    return torch.randn(batch, n, width, generator=torch.Generator().manual_seed(seed))


def masked_attention(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
    """Attention with a full matrix of scores; `allowed` (..., n, m) says which keys a query sees."""
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    return scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1) @ v


def behind(n: int) -> Tensor:
    """(n, n): how many tokens key j is before query i."""
    return torch.arange(n)[:, None] - torch.arange(n)
