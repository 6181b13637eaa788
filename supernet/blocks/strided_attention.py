"""Strided attention (Sparse Transformer): some heads see the nearest tokens, the others every n-th token."""

from __future__ import annotations

import torch
from torch import Tensor

from search_spaces.kind import Dim, Kind, Rule
from supernet.blocks.attention import ATTENDS, EVEN_HEADS, OWN_HEADS, drawn_heads, heads_in_words
from supernet.call import Call, State
from supernet.layers.attention import attend, past_mask
from supernet.layers.self_heads import SelfHeads, attend_on, real_tokens
from supernet.layers.windows import banded, gathered, spread


class StridedAttention(SelfHeads):
    """Heads 0, 2, ... attend to the `stride` nearest tokens (on each side, or before); heads 1, 3, ... to all tokens
    whose distance is a multiple of `stride`."""

    def __init__(self, *, width: int, causal: bool, positions: str, context: int, bias: bool, n_heads: int,
                 head_dim: int, stride: int) -> None:
        super().__init__(width=width, causal=causal, positions=positions, context=context, bias=bias, n_heads=n_heads,
                         head_dim=head_dim)
        self.stride = stride

    def forward(self, x: Tensor, call: Call) -> Tensor:
        projected = self.project(x, call.position)
        near, far = ([tensor[:, first::2] for tensor in projected] for first in (0, 1))
        if call.state is not None:
            return self._interleaved(*self._continued(near, far, call.state, call.mask))
        after = 0 if self.causal else self.stride
        y = banded(*near, real_tokens(x, call.mask), self.stride, after, self.dropout)
        return self._interleaved(y, self._far(*far, x, call.mask))

    def _far(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = (spread(tensor, self.stride) for tensor in (q, k, v))
        if self.causal and mask is None:  # what was filled up is at the end, and hidden as the future is
            y = attend(q, k, v, None, self.dropout, is_causal=True)
        else:
            m = q.shape[2]
            real = real_tokens(x, mask)[:, None, :, None].expand(-1, self.n_heads // 2, -1, -1)
            real = spread(real.to(x.dtype), self.stride)[..., None, :, 0] > 0
            allowed = (real & past_mask(m, m, x.device)) if self.causal else real
            y = attend(q, k, v, allowed | torch.eye(m, dtype=torch.bool, device=x.device), self.dropout)
        return gathered(y, self.stride, x.shape[1])

    def _continued(self, near: list[Tensor], far: list[Tensor], state: State,
                   mask: Tensor | None) -> tuple[Tensor, Tensor]:
        kept, all = State(state.tensors[:2]), State(state.tensors[2:])
        outputs = (attend_on(*near, kept, mask, lambda behind: behind <= self.stride, self.stride),
                 attend_on(*far, all, mask, lambda behind: behind % self.stride == 0))
        state.tensors = kept.tensors + all.tensors
        return outputs

    def _interleaved(self, near: Tensor, far: Tensor) -> Tensor:
        return self.merged(torch.stack([near, far], dim=2).flatten(1, 2))

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        """Keys and values of near heads for the nearest tokens, of far heads for all."""
        return tuple((batch, self.n_heads // 2, tokens, self.head_dim)
                     for tokens in (min(past, self.stride), past) for _ in "kv")


KIND = Kind(
    name="strided_attention",
    role="mixer",
    module=StridedAttention,
    help="attention to the nearest tokens and to every stride-th distant one (Sparse Transformer)",
    paper="Child et al. (2019), Sparse Transformers, arXiv:1904.10509",
    dims=(*OWN_HEADS, Dim("stride", int, "number of nearest tokens, and distance between distant ones", least=2)),
    facts=ATTENDS,
    rules=(EVEN_HEADS, Rule(("n_heads",), lambda n_heads: n_heads % 2 == 0,
                            "n_heads must be even: half of the heads attend to near tokens, half to distant ones")),
    words=lambda dims, width: ("strided attention", heads_in_words(dims), f"stride {dims['stride']}"),
    parts=drawn_heads,
)
