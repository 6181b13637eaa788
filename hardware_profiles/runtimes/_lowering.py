"""Rewrites operators so that XNNPACK supports them; used when a model is compiled, never copied to a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx.traceback import NodeSource
from torch.overrides import TorchFunctionMode

HIDDEN = -1e9
"""Added to masked attention scores: finite, because kernels may not support infinity."""


class Rewritten(TorchFunctionMode):
    """While a module is traced, replaces operators that XNNPACK does not support.

    PyTorch's own decompositions build the causal mask at every call, guard the softmax against fully masked rows, and
    keep norms as single operators; each of these leaves the delegate and re-enters it. A padding mask is assumed not to
    mask everything.

    Args:
        int8: look rows up in tables of int8.
    """

    def __init__(self, int8: bool = False) -> None:
        super().__init__()
        self.int8 = int8

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention and _plain(*args, **kwargs):
            return attend(*args, **kwargs)
        if func is F.embedding and self.int8:
            return embedding(*args, **kwargs)
        if func in _REWRITES:
            return _REWRITES[func](*args, **kwargs)
        return func(*args, **kwargs)


def _plain(q: Tensor, k: Tensor, v: Tensor, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
           scale: float | None = None, enable_gqa: bool = False) -> bool:
    padding = attn_mask is not None and attn_mask.dtype == torch.bool and tuple(attn_mask.shape[1:3]) == (1, 1)
    return (attn_mask is None or padding) and not enable_gqa


def attend(q: Tensor, k: Tensor, v: Tensor, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
           scale: float | None = None, enable_gqa: bool = False) -> Tensor:
    """Attention over (batch x heads, n, head_dim), the causal mask a constant, a mask of padding (batch, 1, 1, m)."""
    n, m = q.shape[-2], k.shape[-2]
    flat_q, flat_k, flat_v = (tensor.reshape(-1, *tensor.shape[-2:]) for tensor in (q, k, v))
    factor = torch.full((1,), q.shape[-1] ** -0.5 if scale is None else scale, dtype=q.dtype)
    scores = torch.bmm(flat_q * factor, flat_k.transpose(1, 2))
    if is_causal and m > 1:
        scores = scores + torch.full((n, m), HIDDEN, dtype=q.dtype).triu(1)
    if attn_mask is not None:
        hidden = torch.logical_not(attn_mask).to(q.dtype) * torch.full((1,), HIDDEN, dtype=q.dtype)
        scores = (scores.reshape(*q.shape[:-1], m) + hidden).reshape(-1, n, m)
    return torch.bmm(scores.softmax(-1), flat_v).reshape(*q.shape[:-1], v.shape[-1])


def embedding(ids: Tensor, weight: Tensor, padding_idx: Any = None, *rest: Any, **named: Any) -> Tensor:
    """Rows of a table in int8, each with its scale: the table is folded to a constant.

    The runtime's own operator for such tables is in a library that programs for XNNPACK do not need otherwise.
    """
    scale = (weight.abs().amax(1, keepdim=True) / 127).clamp(min=1e-12)
    table = torch.round(weight / scale).to(torch.int8)
    return F.embedding(ids, table).to(weight.dtype) * F.embedding(ids, scale)


def layer_norm(x: Tensor, shape: Any, weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-5) -> Tensor:
    """Layer normalisation over the last axis from means, products and sums."""
    if len(shape) != 1:
        return torch.native_layer_norm(x, shape, weight, bias, eps)[0]
    flat = x.reshape(1, -1, x.shape[-1], 1)
    centred = flat - _mean(flat)
    return _scaled(centred, _mean(centred * centred), eps, x, weight, bias)


def rms_norm(x: Tensor, shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """Root-mean-square normalisation over the last axis, the same way."""
    if len(shape) != 1:
        return torch.rms_norm(x, shape, weight, eps)
    flat = x.reshape(1, -1, x.shape[-1], 1)
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    return _scaled(flat, _mean(flat * flat), eps, x, weight, None)


def _mean(x: Tensor) -> Tensor:
    """Mean over the last two of four axes: the only mean that the delegate supports."""
    return x.mean((2, 3), keepdim=True)


def _scaled(x: Tensor, square: Tensor, eps: float, like: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    y = (x * torch.rsqrt(square + torch.full((1,), eps, dtype=x.dtype))).reshape(like.shape)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def repeat_interleave(x: Tensor, repeats: Any, dim: int | None = None, **rest: Any) -> Tensor:
    """Repeats by a product with ones: the delegate does not support the broadcast view that PyTorch uses."""
    if not isinstance(repeats, int) or dim is None or not x.is_floating_point():
        return torch.repeat_interleave(x, repeats, dim, **rest)
    dim = dim % x.dim()
    ones = torch.ones(repeats, *[1] * (x.dim() - dim - 1), dtype=x.dtype)
    return (x.reshape(*x.shape[: dim + 1], 1, *x.shape[dim + 1 :]) * ones).flatten(dim, dim + 1)


def dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """The identity, because the module is in eval mode; later operators can be folded."""
    return F.dropout(x, p, training, inplace) if training else x


def masked_fill(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """Zeros by a product, which the delegate supports; other values unchanged."""
    if not isinstance(value, (int, float)) or value != 0 or not x.is_floating_point():
        return x.masked_fill(mask, value)
    return x * torch.logical_not(mask).to(x.dtype)


def addcmul(x: Tensor, a: Tensor, b: Tensor, *, value: float = 1) -> Tensor:
    """x + value * a * b, without the casts that PyTorch puts in between."""
    return x + (a * b if value == 1 else a * b * torch.full((1,), value, dtype=x.dtype))


_REWRITES: dict[Any, Callable[..., Any]] = {F.layer_norm: layer_norm, F.rms_norm: rms_norm,
                                            F.dropout: dropout, Tensor.masked_fill: masked_fill,
                                            Tensor.repeat_interleave: repeat_interleave, torch.addcmul: addcmul}


@contextmanager
def without_history() -> Iterator[None]:
    """Let passes share node metadata: deep copies of it take a sixth of the time."""
    with mock.patch.object(NodeSource, "__deepcopy__", lambda self, memo: self, create=True):
        yield
