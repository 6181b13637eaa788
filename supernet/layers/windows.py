"""Attention to neighbours, computed chunk by chunk: time and memory grow with the length, not with its square.

Lengths may be symbolic (exporters keep them dynamic), so nothing here checks whether a length divides another:
sequences are padded by a fixed number of tokens, and indices pick the chunks.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from supernet.layers.attention import attend

LEAST_CHUNK = 16
"""Minimum length of a chunk; shorter ones spend most time on moving data."""


def count_chunks(n: int, size: int) -> int:
    """Number of chunks of a sequence; one more if the length is dynamic: exporters treat a single chunk specially."""
    return (n + size - 1) // size + isinstance(n, torch.SymInt)


def chunked(x: Tensor, size: int, before: int = 0, after: int = 0, step: int = 1) -> Tensor:
    """(batch, heads, n, dim) -> (batch, heads, chunks, before + size + after, dim).

    Each chunk is `size` tokens, `step` apart, with their neighbours at the same distance; what is outside of the
    sequence is zero. With a step, the chunks of every step-th token from the first on come first.
    """
    wide = F.pad(x, (0, 0, before * step, (after + 2 * size) * step - 1))
    count = count_chunks((x.shape[2] + step - 1) // step, size)
    first, inside = torch.arange(count, device=x.device) * size, torch.arange(before + size + after, device=x.device)
    places = (first[:, None] + inside) * step
    if step > 1:
        places = (torch.arange(step, device=x.device)[:, None, None] + places).flatten(0, 1)
    return wide[:, :, places]


def joined(chunks: Tensor, n: int, step: int = 1) -> Tensor:
    """(batch, heads, chunks, size, dim) -> (batch, heads, n, dim)."""
    places, per_step = torch.arange(n, device=chunks.device), chunks.shape[2] // step * chunks.shape[3]
    return chunks.flatten(2, 3).index_select(2, places % step * per_step + places // step if step > 1 else places)


def spread(x: Tensor, step: int) -> Tensor:
    """(batch, heads, n, dim) -> (batch, heads * step, n / step, dim): every `step`-th token is a sequence of a head."""
    wide = F.pad(x, (0, 0, 0, 2 * step - 1))
    places = torch.arange(count_chunks(x.shape[2], step), device=x.device) * step
    return wide[:, :, torch.arange(step, device=x.device)[:, None] + places].flatten(1, 2)


def gathered(x: Tensor, step: int, n: int) -> Tensor:
    """The inverse of `spread`, for n tokens."""
    places = torch.arange(n, device=x.device)
    order = places % step * x.shape[2] + places // step
    return torch.unflatten(x, 1, (-1, step)).flatten(2, 3).index_select(2, order)


def banded(q: Tensor, k: Tensor, v: Tensor, real: Tensor, before: int, after: int, dropout: float = 0.0,
           everywhere: tuple[Tensor, Tensor, Tensor] | None = None, step: int = 1) -> Tensor:
    """Attend to the `before` tokens before each token, to itself and to the `after` tokens after it, all `step` apart.

    Args:
        q: (batch, heads, n, head_dim), as k and v.
        real: (batch, n), true for keys that may be seen. A token always sees itself, so that every token sees at least
            one.
        everywhere: further keys, values (batch, heads, m, head_dim) and whether they are real (batch, m), which every
            token sees.
    """
    heads, n, size = q.shape[1], q.shape[2], max(before, after, LEAST_CHUNK)
    q, (k, v) = chunked(q, size, step=step), (chunked(tensor, size, before, after, step) for tensor in (k, v))
    offset = (torch.arange(k.shape[3], device=q.device) - before)[None] - torch.arange(size, device=q.device)[:, None]
    seen = chunked(real[:, None, :, None].to(q.dtype), size, before, after, step)[..., 0] > 0
    allowed = (seen[..., None, :] & (offset >= -before) & (offset <= after)) | (offset == 0)
    if everywhere is not None:
        keys, values = (tensor[:, :, None].expand(-1, -1, q.shape[2], -1, -1) for tensor in everywhere[:2])
        k, v = torch.cat([keys, k], dim=3), torch.cat([values, v], dim=3)
        there = everywhere[2][:, None, None, None, :].expand(-1, *allowed.shape[1:4], -1)
        allowed = torch.cat([there, allowed], dim=-1)
    return joined(attend_chunks(q, k, v, allowed.expand(-1, heads, -1, -1, -1), dropout), n, step)


def attend_chunks(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, dropout: float = 0.0) -> Tensor:
    """Attention of (batch, heads, chunks, size, head_dim) to the keys of the same chunk, by the kernel for 4 axes."""
    heads = q.shape[1]
    q, k, v, allowed = (tensor.flatten(1, 2) for tensor in (q, k, v, allowed))
    return torch.unflatten(attend(q, k, v, allowed, dropout), 1, (heads, -1))


def first_tokens(x: Tensor, count: int, axis: int = 2) -> Tensor:
    """The first `count` tokens along an axis; zeros where a sequence has fewer."""
    return F.pad(x, (0, 0) * (x.ndim - axis - 1) + (0, count)).narrow(axis, 0, count)


def attend_from_first(q: Tensor, k: Tensor, v: Tensor, real: Tensor, count: int, dropout: float = 0.0) -> Tensor:
    """(batch, heads, n, head_dim): what the first `count` tokens see of all real ones; zeros at the other tokens."""
    y = attend(first_tokens(q, count), k, v, real[:, None, None, :], dropout)
    return F.pad(y, (0, 0, 0, q.shape[2])).index_select(2, torch.arange(q.shape[2], device=q.device))
