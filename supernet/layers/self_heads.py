"""What the kinds of self-attention share: the maps of the heads, and keys and values that are kept for decoding."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from supernet.call import State
from supernet.layers.attention import HeadMaps, attend


class SelfHeads(HeadMaps):
    """The maps of self-attention in which every head has its own keys and values."""

    def __init__(self, *, width: int, causal: bool, positions: str, context: int, bias: bool, n_heads: int,
                 head_dim: int) -> None:
        super().__init__(query_dim=width, memory_dim=width, out_dim=width, n_heads=n_heads, head_dim=head_dim,
                         n_kv_heads=n_heads, bias=bias, causal=causal,
                         rotary_length=context if positions == "rotary" else 0)

    def project(self, x: Tensor, position: int | Tensor = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (batch, n_heads, n, head_dim) of x; `position` as a `Call` has it."""
        return self.queries(x, position), *self.keys_values(x, position)


def real_tokens(x: Tensor, mask: Tensor | None) -> Tensor:
    """(batch, n), true where a token of x (batch, n, width) is real; the mask may be of tokens before x, too."""
    return torch.ones_like(x[..., 0], dtype=torch.bool) if mask is None else mask[:, -x.shape[1] :]


def appended(held: tuple[Tensor, ...], new: tuple[Tensor, ...],
             most: int | None = None) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Tensors (batch, heads, tokens, ...) with those of new tokens appended, and those kept: all or the last `most`."""
    joined = tuple(torch.cat(pair, dim=2) for pair in zip(held, new))
    return joined, joined if most is None else tuple(keys[:, :, max(keys.shape[2] - most, 0) :] for keys in joined)


def attend_on(q: Tensor, k: Tensor, v: Tensor, state: State, mask: Tensor | None, sees: Callable[[Tensor], Tensor],
              most: int | None = None) -> Tensor:
    """Attend from the newest tokens to themselves and to those that a state holds; it keeps all, or the last `most`.

    Args:
        mask: of all tokens, as a `Call` has it.
        sees: whether a query sees a key, by how many tokens (n, m) the key is behind it.
    """
    (k, v), state.tensors = appended(state.tensors, (k, v), most)
    behind = distances(q.shape[2], k.shape[2], q.device)
    return attend(q, k, v, real_keys((behind >= 0) & sees(behind), behind, mask))


def real_keys(allowed: Tensor, behind: Tensor, mask: Tensor | None) -> Tensor:
    """What queries may see of the last m keys, where some tokens are not real: (n, m), or (batch, 1, n, m).

    A token always sees itself, so that every token sees at least one.
    """
    if mask is None:
        return allowed
    length = mask.shape[1]
    last = torch.arange(length - behind.shape[1], length, device=mask.device)  # a slice would fix whether it is all
    return allowed & mask.index_select(1, last)[:, None, None, :] | (behind == 0)


def distances(n: int, m: int, device: torch.device) -> Tensor:
    """(n, m): how many tokens each of m keys is behind each of the last n queries; negative where it is later."""
    return torch.arange(m - n, m, device=device)[:, None] - torch.arange(m, device=device)
