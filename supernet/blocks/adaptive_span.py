"""Adaptive attention span: every head learns how far it attends, up to a span that the architecture sets."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from search_spaces.kind import Dim, Kind
from supernet.blocks.attention import ATTENDS, EVEN_HEADS, OWN_HEADS, drawn_heads, heads_in_words
from supernet.call import Call
from supernet.layers.self_heads import SelfHeads, appended, distances, real_keys, real_tokens
from supernet.layers.windows import LEAST_CHUNK, chunked, joined
from supernet.layout import Layout

SPAN_LOSS = 2e-6
"""Weight of the loss per token of the mean span, as in the paper."""


class AdaptiveSpan(SelfHeads):
    """Softmax weights times m(d) = clamp((ramp + span - d) / ramp, 0, 1) of the distance d, made to sum to 1.

    A head's span is max_span x sigmoid of what it learns; keys farther than `max_span` are never computed.
    """

    def __init__(self, *, width: int, causal: bool, positions: str, context: int, bias: bool, n_heads: int,
                 head_dim: int, max_span: int, ramp: int) -> None:
        super().__init__(width=width, causal=causal, positions=positions, context=context, bias=bias, n_heads=n_heads,
                         head_dim=head_dim)
        self.max_span, self.ramp = max_span, ramp
        self.span = nn.Parameter(torch.zeros(n_heads))

    def forward(self, x: Tensor, call: Call) -> Tensor:
        q, k, v = self.project(x, call.position)
        if call.losses is not None:
            call.losses.append(SPAN_LOSS * self._spans().mean())
        if call.state is not None:
            (k, v), call.state.tensors = appended(call.state.tensors, (k, v), self.max_span)
            behind = distances(q.shape[2], k.shape[2], x.device)
            return self.merged(self._attend(q, k, v, behind, real_keys(behind >= 0, behind, call.mask)))
        before, after = self.max_span, 0 if self.causal else self.max_span
        size = max(self.max_span, LEAST_CHUNK)
        places = torch.arange(before + size + after, device=x.device) - before
        behind = torch.arange(size, device=x.device)[:, None] - places
        real = chunked(real_tokens(x, call.mask)[:, None, :, None].to(x.dtype), size, before, after)[..., 0] > 0
        y = self._attend(chunked(q, size), chunked(k, size, before, after), chunked(v, size, before, after), behind,
                         (real[..., None, :] & (behind >= -after)) | (behind == 0))
        return self.merged(joined(y, x.shape[1]))

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, behind: Tensor, allowed: Tensor) -> Tensor:
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        far = behind.abs()
        scores = scores.masked_fill(~(allowed & (far <= self.max_span)), torch.finfo(scores.dtype).min)
        spans = self._spans().view(-1, *(1,) * (scores.ndim - 2))
        soft = ((self.ramp + spans - far) / self.ramp).clamp(0, 1)
        weights = scores.softmax(dim=-1) * soft
        return self.drop(weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-8)) @ v

    def _spans(self) -> Tensor:
        return self.max_span * self.span.sigmoid()

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        """Keys and values of the tokens within the largest span."""
        return ((batch, self.n_heads, min(past, self.max_span), self.head_dim),) * 2

    def layouts(self) -> dict[str, Layout]:
        """A head starts with half of the largest span."""
        return super().layouts() | {"span": Layout(init="zeros")}


KIND = Kind(
    name="adaptive_span",
    role="mixer",
    module=AdaptiveSpan,
    help="attention with a learned span per head (adaptive attention span)",
    paper="Sukhbaatar et al. (2019), Adaptive Attention Span in Transformers, arXiv:1905.07799",
    dims=(*OWN_HEADS, Dim("max_span", int, "maximum number of tokens a head attends to on each side (decoder: before)"),
          Dim("ramp", int, "tokens over which the attention weights decay to 0", default=8)),
    facts=ATTENDS,
    adds_loss=True,
    rules=(EVEN_HEADS,),
    words=lambda dims, width: ("adaptive span", heads_in_words(dims), f"up to {dims['max_span']}"),
    parts=drawn_heads,
)
