"""Multi-head attention as a plain module; several block kinds are built on it."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supernet.call import Record, State
from supernet.declared import AttentionHeads
from supernet.layers.tables import Table, rotate, rotations
from supernet.layout import Layout

RESIDUAL_GAIN = 0.3
"""Start of every map that writes to the residual stream, so that depth hardly matters at first."""


class MultiHead(nn.Module):
    """Scaled dot-product attention with `n_heads` query and `n_kv_heads` key/value heads.

    Args:
        query_dim: width of what asks.
        memory_dim: width of what is attended to.
        out_dim: width of the result.
        causal: whether position i sees only positions <= i.
        rotary_length: the longest sequence where positions are rotary, else 0.
    """

    def __init__(self, *, query_dim: int, memory_dim: int, out_dim: int, n_heads: int, head_dim: int,
                 n_kv_heads: int, bias: bool, causal: bool = False, rotary_length: int = 0) -> None:
        super().__init__()
        self.n_heads, self.head_dim, self.n_kv_heads, self.causal = n_heads, head_dim, n_kv_heads, causal
        self.q = nn.Linear(query_dim, n_heads * head_dim, bias=bias)
        self.k = nn.Linear(memory_dim, n_kv_heads * head_dim, bias=bias)
        self.v = nn.Linear(memory_dim, n_kv_heads * head_dim, bias=bias)
        self.o = nn.Linear(n_heads * head_dim, out_dim, bias=bias)
        self.rotary = Table(partial(rotations, rotary_length, head_dim),
                            (2, rotary_length, head_dim)) if rotary_length else None
        self.drop = nn.Dropout(0.0)

    def forward(self, x: Tensor, memory: Tensor | None, mask: Tensor | None, record: Record | None,
                state: State | None = None, position: int | Tensor | None = None) -> Tensor:
        """Attend from x (batch, n, query_dim) to memory (batch, m, memory_dim); `mask` is over all that is attended to.

        A `state` holds keys and values. Causal attention appends those of `memory`, which is x; otherwise they are
        computed from `memory` once, and it may be None from then on. `position` is that of x, as a `Call` has it; by
        default as many as the state holds.
        """
        past = 0 if state is None else state.tensors[0].shape[2]
        position = past if position is None else position
        q = self._heads(self.q(x), self.n_heads)
        if self.rotary is not None:
            q = rotate(q, self.rotary.values, position)
        if state is None:
            k, v = self._keys_values(memory, position)
        else:
            k, v = state.tensors = self._continued(memory, past, position, *state.tensors)
        if self.n_kv_heads != self.n_heads:
            repeat = self.n_heads // self.n_kv_heads
            k, v = k.repeat_interleave(repeat, dim=1), v.repeat_interleave(repeat, dim=1)
        allowed = None if mask is None else mask[:, None, None, :]
        if record is None:
            y = self._fused(q, k, v, allowed)
        else:
            y = self._recorded(q, k, v, allowed, record)
        return self.o(y.transpose(1, 2).flatten(2))

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        """Keys and values of `past` tokens."""
        return ((batch, self.n_kv_heads, past, self.head_dim),) * 2

    def _keys_values(self, memory: Tensor | None, position: int | Tensor) -> tuple[Tensor, Tensor]:
        assert memory is not None, "there is nothing to attend to"
        k, v = self._heads(self.k(memory), self.n_kv_heads), self._heads(self.v(memory), self.n_kv_heads)
        return (k if self.rotary is None else rotate(k, self.rotary.values, position)), v

    def _continued(self, memory: Tensor | None, past: int, position: int | Tensor, keys: Tensor,
                   values: Tensor) -> tuple[Tensor, Tensor]:
        if past and not self.causal:
            return keys, values
        k, v = self._keys_values(memory, position)
        return (torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)) if past else (k, v)

    def _heads(self, x: Tensor, n_heads: int) -> Tensor:
        return x.view(x.shape[0], x.shape[1], n_heads, self.head_dim).transpose(1, 2)

    def _fused(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
        dropout, n, m = self.drop.p if self.training else 0.0, q.shape[2], k.shape[2]
        is_causal = self.causal and allowed is None and bool(n == m)  # a tracer compares to a tensor
        if self.causal and not is_causal and n > 1:  # a single token sees all there is
            past = _past(n, m, q.device)
            # Padding before a text sees itself, so that no row of the softmax is empty: runtimes give no number there.
            allowed = past if allowed is None else allowed & past | _past(n, m, q.device, only=True)
        if q.requires_grad and q.dtype == torch.bfloat16 and q.device.type == "cpu":
            # On processors the kernel's backward pass takes 2 to 3 times as long in bfloat16 as in float32.
            with torch.autocast("cpu", enabled=False):
                q, k, v = q.float(), k.float(), v.float()
                return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=dropout,
                                                      is_causal=is_causal).bfloat16()
        return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=dropout, is_causal=is_causal)

    def _recorded(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None, record: Record) -> Tensor:
        """The same, step by step, so that the attention map can be kept."""
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        if self.causal:
            past = _past(q.shape[2], k.shape[2], q.device)
            allowed = past if allowed is None else allowed & past
        if allowed is not None:
            scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)
        if allowed is not None:  # a token that may see nothing gets nothing, as in the fused kernel
            weights = weights.masked_fill(~allowed, 0.0)
        record.attention.append(weights)
        return self.drop(weights) @ v

    def heads(self) -> AttentionHeads:
        """Query heads lie along the outputs of q and the inputs of o, key and value heads along the outputs of k, v."""
        tensors = {f"{part}.{name}": (0, part == "q") for part in ("q", "k", "v") for name in ("weight", "bias")}
        return AttentionHeads(self.n_heads, self.n_kv_heads, self.head_dim, {**tensors, "o.weight": (1, True)}, "o")

    def layouts(self) -> dict[str, Layout]:
        """Heads and head size are elastic each for itself, so the store keeps them apart."""
        heads, kv_heads = (self.n_heads, self.head_dim), (self.n_kv_heads, self.head_dim)
        found = {
            "q.weight": Layout((*heads, self.q.in_features)),
            "k.weight": Layout((*kv_heads, self.k.in_features)),
            "v.weight": Layout((*kv_heads, self.v.in_features)),
            "o.weight": Layout((self.o.out_features, *heads), inputs=(1, 2), gain=RESIDUAL_GAIN),
        }
        if self.q.bias is not None:
            found |= {"q.bias": Layout(heads), "k.bias": Layout(kv_heads), "v.bias": Layout(kv_heads)}
        return found


def _past(n: int, m: int, device: torch.device, only: bool = False) -> Tensor:
    """(n, m), true where a position may look: itself and what came before, or itself only."""
    seen = torch.ones(n, m, dtype=torch.bool, device=device).tril(m - n)
    return seen.triu(m - n) if only else seen
