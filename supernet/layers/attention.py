"""Multi-head attention as a plain module; several block kinds are built on it."""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supernet.call import Record, State
from supernet.declared import AttentionHeads, Product
from supernet.layers.norms import make_norm
from supernet.layers.tables import Table, rotate, rotations
from supernet.layout import Layout

RESIDUAL_GAIN = 0.3
"""Initialisation gain of maps that write to the residual stream, so that depth hardly matters at first."""


class RelativeBias(nn.Module):
    """T5's relative positions: per head a learned number for every bucket of distances, added to the scores.

    Near distances have a bucket each; those up to `longest` share buckets of growing size, and all beyond the last one.
    """

    def __init__(self, *, n_heads: int, buckets: int, longest: int, context: int, causal: bool) -> None:
        super().__init__()
        self.context = context
        self.weight = nn.Parameter(torch.empty(buckets, n_heads))
        self.bucket = Table(partial(distance_buckets, context, buckets, longest, causal), (2 * context - 1,))

    def forward(self, past: int, n: int, m: int) -> Tensor:
        """(1, n_heads, n, m): for queries at the positions from `past` on, and keys from 0 on."""
        queries = torch.arange(past, past + n, device=self.weight.device)
        keys = torch.arange(m, device=self.weight.device)
        index = self.bucket.values[keys[None, :] - queries[:, None] + self.context - 1].long()
        return F.embedding(index, self.weight).permute(2, 0, 1)[None]

    def matrices(self) -> dict[str, Product]:
        return {"weight": Product.NONE}

    def layouts(self) -> dict[str, Layout]:
        return {"weight": Layout(init=0.02)}


def distance_buckets(context: int, buckets: int, longest: int, causal: bool) -> Tensor:
    """(2 context - 1,): the bucket of every distance from key to query, from 1 - context to context - 1."""
    distance = torch.arange(1 - context, context)
    first = torch.zeros_like(distance)
    if causal:
        distance = (-distance).clamp(min=0)
    else:
        buckets //= 2
        first, distance = (distance > 0).long() * buckets, distance.abs()
    exact = buckets // 2
    far = (distance.float() / exact).clamp(min=1).log() / math.log(longest / exact) * (buckets - exact)
    far = (exact + far.long()).clamp(max=buckets - 1)
    return (first + torch.where(distance < exact, distance, far)).float()


class HeadMaps(nn.Module):
    """The maps of attention: queries, keys and values of every head, and the output.

    Args:
        query_dim: width of the input of queries.
        memory_dim: width of the input of keys and values.
        out_dim: width of the result.
        causal: whether position i sees only positions <= i.
        rotary_length: the longest sequence where positions are rotary, else 0.
        rotary_base: of the wavelengths of rotary positions.
        out_bias: whether the output map has a bias; by default as the others.
        qk_norm: whether queries and keys are normalised, each head by itself; `norm_eps` as in `make_norm`.
        relative: what is added to the scores by distance, if anything.
    """

    def __init__(self, *, query_dim: int, memory_dim: int, out_dim: int, n_heads: int, head_dim: int,
                 n_kv_heads: int, bias: bool, causal: bool = False, rotary_length: int = 0, rotary_base: float = 1e4,
                 out_bias: bool | None = None, qk_norm: bool = False, norm_eps: float = 0.0,
                 relative: RelativeBias | None = None) -> None:
        super().__init__()
        self.n_heads, self.head_dim, self.n_kv_heads, self.causal = n_heads, head_dim, n_kv_heads, causal
        self.q = nn.Linear(query_dim, n_heads * head_dim, bias=bias)
        self.k = nn.Linear(memory_dim, n_kv_heads * head_dim, bias=bias)
        self.v = nn.Linear(memory_dim, n_kv_heads * head_dim, bias=bias)
        self.o = nn.Linear(n_heads * head_dim, out_dim, bias=bias if out_bias is None else out_bias)
        self.q_norm = make_norm("rmsnorm", head_dim, norm_eps) if qk_norm else None
        self.k_norm = make_norm("rmsnorm", head_dim, norm_eps) if qk_norm else None
        self.relative = relative
        self.rotary = Table(partial(rotations, rotary_length, head_dim, rotary_base),
                            (2, rotary_length, head_dim)) if rotary_length else None
        self.drop = nn.Dropout(0.0)

    @property
    def dropout(self) -> float:
        """The rate that applies now: 0 outside training."""
        return self.drop.p if self.training else 0.0

    def queries(self, x: Tensor, position: int | Tensor = 0) -> Tensor:
        """(batch, n_heads, n, head_dim) of x (batch, n, query_dim); `position` as a `Call` has it."""
        q = self._heads(self.q(x), self.n_heads)
        if self.q_norm is not None:
            q = self.q_norm(q)
        return q if self.rotary is None else rotate(q, self.rotary.values, position)

    def keys_values(self, memory: Tensor, position: int | Tensor = 0) -> tuple[Tensor, Tensor]:
        """Keys and values (batch, n_kv_heads, m, head_dim) of memory (batch, m, memory_dim)."""
        of_keys, of_values = self._inputs(memory)
        k, v = self._heads(self.k(of_keys), self.n_kv_heads), self._heads(self.v(of_values), self.n_kv_heads)
        if self.k_norm is not None:
            k = self.k_norm(k)
        return (k if self.rotary is None else rotate(k, self.rotary.values, position)), v

    def merged(self, y: Tensor) -> Tensor:
        """The output (batch, n, out_dim) from the results of the heads (batch, n_heads, n, head_dim)."""
        out: Tensor = self.o(y.transpose(1, 2).flatten(2))
        return out

    def _inputs(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """The input of keys and values."""
        return memory, memory

    def _heads(self, x: Tensor, n_heads: int) -> Tensor:
        return x.view(x.shape[0], x.shape[1], n_heads, self.head_dim).transpose(1, 2)

    def layouts(self) -> dict[str, Layout]:
        """Heads and head size are elastic independently, so they are separate axes in the store."""
        layouts = {"o.weight": Layout((self.o.out_features, self.n_heads, self.head_dim), inputs=(1, 2),
                                    gain=RESIDUAL_GAIN)}
        for name, count in (("q", self.n_heads), ("k", self.n_kv_heads), ("v", self.n_kv_heads)):
            map = self._modules.get(name)  # a block without queries or keys of its own leaves the map out
            if isinstance(map, nn.Linear):
                layouts[f"{name}.weight"] = Layout((count, self.head_dim, map.in_features))
                if map.bias is not None:
                    layouts[f"{name}.bias"] = Layout((count, self.head_dim))
        return layouts


class MultiHead(HeadMaps):
    """Scaled dot-product attention with `n_heads` query and `n_kv_heads` key/value heads."""

    def forward(self, x: Tensor, memory: Tensor | None, mask: Tensor | None, record: Record | None,
                state: State | None = None, position: int | Tensor | None = None) -> Tensor:
        """Attend from x (batch, n, query_dim) to memory (batch, m, memory_dim); `mask` covers all attended tokens.

        A `state` holds keys and values. Causal attention appends those of `memory`, which is x; otherwise they are
        computed from `memory` once, and later calls may pass None. `position` is that of x, as a `Call` has it; by
        default as many as the state holds.
        """
        past = 0 if state is None else state.tensors[0].shape[2]
        position = past if position is None else position
        q = self.queries(x, position)
        if state is None:
            assert memory is not None, "no tokens to attend to"
            k, v = self.keys_values(memory, position)
        else:
            k, v = state.tensors = self._continued(memory, past, position, *state.tensors)
        return self.attend(q, k, v, mask, record)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, record: Record | None) -> Tensor:
        """The output of the last queries among as many tokens as there are keys; `mask` covers all keys."""
        if self.n_kv_heads != self.n_heads:
            repeat = self.n_heads // self.n_kv_heads
            k, v = k.repeat_interleave(repeat, dim=1), v.repeat_interleave(repeat, dim=1)
        allowed = None if mask is None else mask[:, None, None, :]
        n, m = q.shape[2], k.shape[2]
        bias = None if self.relative is None else self.relative(m - n, n, m)
        if record is None:
            y = self._fused(q, k, v, allowed, bias)
        else:
            y = self._recorded(q, k, v, allowed, bias, record)
        return self.merged(y)

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        """Keys and values of `past` tokens."""
        return ((batch, self.n_kv_heads, past, self.head_dim),) * 2

    def _continued(self, memory: Tensor | None, past: int, position: int | Tensor, keys: Tensor,
                   values: Tensor) -> tuple[Tensor, Tensor]:
        if past and not self.causal:
            return keys, values
        assert memory is not None, "no tokens to attend to"
        k, v = self.keys_values(memory, position)
        return (torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)) if past else (k, v)

    def _fused(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None, bias: Tensor | None) -> Tensor:
        n, m = q.shape[2], k.shape[2]
        is_causal = self.causal and allowed is None and bias is None and bool(n == m)  # a tracer compares to a tensor
        if self.causal and not is_causal and n > 1:  # a single token sees all earlier tokens
            allowed = _causal(allowed, n, m, q.device)
        if bias is not None:
            bias = bias.to(q.dtype)
            allowed = bias if allowed is None else bias.masked_fill(~allowed, torch.finfo(q.dtype).min)
        return attend(q, k, v, allowed, self.dropout, is_causal)

    def _recorded(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None, bias: Tensor | None,
                  record: Record) -> Tensor:
        """The same with an explicit softmax, to record the attention map."""
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        scores = scores if bias is None else scores + bias
        if self.causal:
            allowed = _causal(allowed, q.shape[2], k.shape[2], q.device)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)
        if allowed is not None:  # fully masked tokens get 0, as in the fused kernel
            weights = weights.masked_fill(~allowed, 0.0)
        record.attention.append(weights)
        return self.drop(weights) @ v

    def heads(self) -> AttentionHeads:
        """Query heads lie along the outputs of q and the inputs of o, key and value heads along the outputs of k, v."""
        tensors = {f"{part}.{name}": (0, part == "q") for part in ("q", "k", "v") for name in ("weight", "bias")}
        tensors |= {"o.weight": (1, True)} | ({} if self.relative is None else {"relative.weight": (1, True)})
        return AttentionHeads(self.n_heads, self.n_kv_heads, self.head_dim, tensors, "o")


def attend(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None = None, dropout: float = 0.0,
           is_causal: bool = False) -> Tensor:
    """The fused kernel: softmax(q k^T / sqrt(head_dim)) v, where `allowed` is true if a query may see a key, or is
    added to the scores."""
    if q.requires_grad and q.dtype == torch.bfloat16 and q.device.type == "cpu":
        # On processors the kernel's backward pass takes 2 to 3 times as long in bfloat16 as in float32.
        with torch.autocast("cpu", enabled=False):
            q, k, v = q.float(), k.float(), v.float()
            return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=dropout,
                                                  is_causal=is_causal).bfloat16()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=dropout, is_causal=is_causal)


def _causal(allowed: Tensor | None, n: int, m: int, device: torch.device) -> Tensor:
    """The causal part of what is allowed.

    Padding before a text sees itself, so that no row of the softmax is empty: runtimes return NaN there.
    """
    past = past_mask(n, m, device)
    return past if allowed is None else allowed & past | past_mask(n, m, device, only=True)


def past_mask(n: int, m: int, device: torch.device, only: bool = False) -> Tensor:
    """(n, m), true where a position may look: itself and what came before, or itself only."""
    seen = torch.ones(n, m, dtype=torch.bool, device=device).tril(m - n)
    return seen.triu(m - n) if only else seen
