"""Attention within buckets of similar tokens (Reformer): shared queries and keys, random hashes, several rounds."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from search_spaces.kind import Dim, Kind, Rule
from supernet.blocks.attention import ATTENDS, EVEN_HEADS, OWN_HEADS, drawn_heads, heads_in_words
from supernet.call import Call, State
from supernet.layers.self_heads import SelfHeads, appended, distances, real_tokens
from supernet.layers.windows import chunked, joined
from supernet.layout import Layout

LAST_RESORT = -1e4
"""Attention score of a token for itself, so low that it counts only if the token sees no other."""


class LSHAttention(SelfHeads):
    """Every token attends to the `chunk` tokens of its bucket that are nearest on each side, or before it.

    The bucket is the largest of [x R, -x R] for random directions R. Tokens are sorted by bucket and position, and each
    chunk of the sorted sequence attends to itself and its neighbours. A token's window in its bucket does not depend on
    where chunks begin, so what follows a token cannot change what it sees. Rounds with other directions are averaged by
    the sums of their exponentials.
    """

    directions: Tensor

    def __init__(self, *, width: int, causal: bool, positions: str, context: int, bias: bool, n_heads: int,
                 head_dim: int, n_buckets: int, chunk: int, rounds: int) -> None:
        super().__init__(width=width, causal=causal, positions=positions, context=context, bias=bias, n_heads=n_heads,
                         head_dim=head_dim)
        del self.k
        self.n_buckets, self.chunk, self.rounds = n_buckets, chunk, rounds
        self.register_buffer("directions", torch.zeros(n_heads, rounds, head_dim, n_buckets // 2))

    def forward(self, x: Tensor, call: Call) -> Tensor:
        q, v = self.queries(x, call.position), self._heads(self.v(x), self.n_heads)
        real = real_tokens(x, call.mask)[:, None, None, :]
        k, buckets = F.normalize(q, dim=-1), torch.where(real, self._buckets(q), self.n_buckets)  # padding has its own
        if call.state is not None:
            return self.merged(self._continued(q, k, v, buckets, call.state))
        buckets = buckets.flatten(1, 2)
        n, places = x.shape[1], torch.arange(x.shape[1], device=x.device)
        order = (buckets * n + places).argsort(dim=-1)  # (batch, heads * rounds, n)
        q, k, v = (_picked(tensor.repeat_interleave(self.rounds, dim=1), order) for tensor in (q, k, v))
        y, logs = self._chunks(q, k, v, buckets.gather(-1, order))
        rank = order.argsort(dim=-1)
        split = (self.n_heads, self.rounds)
        return self.merged(_averaged(*(torch.unflatten(_picked(tensor, rank), 1, split) for tensor in (y, logs))))

    def _buckets(self, q: Tensor) -> Tensor:
        """(batch, heads, rounds, n)."""
        projected = q[:, :, None] @ self.directions
        return torch.cat([projected, -projected], dim=-1).argmax(dim=-1)

    def _chunks(self, q: Tensor, k: Tensor, v: Tensor, buckets: Tensor) -> tuple[Tensor, Tensor]:
        """Attention within the window and the bucket, of sorted tokens, and the logarithm of the sum of weights."""
        n, size, after = q.shape[2], self.chunk, 0 if self.causal else self.chunk
        numbers = (buckets + 1)[..., None].to(q.dtype)  # 0 is outside of the sequence
        own, others = chunked(numbers, size), chunked(numbers, size, size, after)
        far = torch.arange(size, device=q.device)[:, None] + size - torch.arange(2 * size + after, device=q.device)
        allowed = (own == others.transpose(-2, -1)) & (far <= size) & (far >= -after)
        k, v = chunked(k, size, size, after), chunked(v, size, size, after)
        y, logs = _attended(chunked(q, size), k, v, allowed, far == 0)
        return joined(y, n), joined(logs, n)

    def _continued(self, q: Tensor, k: Tensor, v: Tensor, buckets: Tensor, state: State) -> Tensor:
        """The same for the newest tokens: the last `chunk` tokens of the bucket, counted from the end."""
        new = buckets.transpose(2, 3).to(k.dtype)
        (k, v, numbers), state.tensors = appended(state.tensors, (k, v, new))
        behind = distances(q.shape[2], k.shape[2], q.device)
        numbers = numbers.transpose(2, 3)  # (batch, heads, rounds, m)
        same = (numbers[..., -q.shape[2] :, None] == numbers[..., None, :]) & (behind >= 0)
        newer = (same & (behind > 0)).to(q.dtype).flip(-1).cumsum(dim=-1).flip(-1)
        return _averaged(*_attended(q[:, :, None], k[:, :, None], v[:, :, None], same & (newer <= self.chunk),
                                    behind == 0))

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        """Keys, values and buckets of all tokens."""
        return *((batch, self.n_heads, past, self.head_dim),) * 2, (batch, self.n_heads, past, self.rounds)

    def layouts(self) -> dict[str, Layout]:
        return super().layouts() | {"directions": Layout(init=1.0)}


def _picked(x: Tensor, order: Tensor) -> Tensor:
    """x (batch, heads, n, dim) in another order (batch, heads, n) of the tokens."""
    return x.gather(2, order[..., None].expand(-1, -1, -1, x.shape[-1]))


def _attended(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, itself: Tensor) -> tuple[Tensor, Tensor]:
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    scores = scores.masked_fill(itself, LAST_RESORT).masked_fill(~(allowed | itself), torch.finfo(scores.dtype).min)
    logs = scores.logsumexp(dim=-1, keepdim=True)
    return (scores - logs).exp() @ v, logs


def _averaged(y: Tensor, logs: Tensor) -> Tensor:
    """(batch, heads, rounds, n, dim) -> (batch, heads, n, dim)."""
    return (y * logs.softmax(dim=2)).sum(dim=2)


KIND = Kind(
    name="lsh_attention",
    role="mixer",
    module=LSHAttention,
    help="attention within hash buckets (Reformer)",
    paper="Kitaev et al. (2020), Reformer, arXiv:2001.04451",
    dims=(*OWN_HEADS, Dim("n_buckets", int, "number of hash buckets", least=2),
          Dim("chunk", int, "tokens of the same bucket attended to on each side (decoder: before)"),
          Dim("rounds", int, "number of hash rounds", default=1)),
    facts=ATTENDS,
    rules=(EVEN_HEADS, Rule(("n_buckets",), lambda n_buckets: n_buckets % 2 == 0, "n_buckets must be even")),
    words=lambda dims, width: ("LSH attention", heads_in_words(dims), f"{dims['n_buckets']} buckets",
                               f"{dims['rounds']} rounds"),
    parts=drawn_heads,
)
