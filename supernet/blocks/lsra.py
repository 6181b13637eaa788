"""Long-short range attention (Lite Transformer): some channels attend, the others are convolved."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn

from search_spaces.kind import Dim, DrawnPart, Kind, Rule, Value
from supernet.blocks.attention import heads_in_words
from supernet.blocks.conv import CONV_DIMS
from supernet.call import Call, State
from supernet.layers.attention import MultiHead
from supernet.layers.convolution import ConvBranch


def attending(width: int, ratio: float) -> Fraction:
    """How many of `width` channels attend."""
    return Fraction(str(ratio)) * width


class LongShortRange(nn.Module):
    """The first `ratio` of the channels attend, the rest are convolved; the results are concatenated."""

    def __init__(self, *, width: int, causal: bool, positions: str, context: int, bias: bool, ratio: float,
                 n_heads: int, kernel: int, conv_heads: int, conv: str, glu: bool) -> None:
        super().__init__()
        self.split = int(attending(width, ratio))
        self.attend = MultiHead(
            query_dim=self.split, memory_dim=self.split, out_dim=self.split, n_heads=n_heads,
            head_dim=self.split // n_heads, n_kv_heads=n_heads, bias=bias, causal=causal,
            rotary_length=context if positions == "rotary" else 0,
        )
        self.convolve = ConvBranch(channels=width - self.split, kernel=kernel, conv_heads=conv_heads, conv=conv,
                                   glu=glu, causal=causal, bias=bias, first=self.split)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        far, near = x[..., : self.split], x[..., self.split :]
        if call.state is None:
            return torch.cat([self.attend(far, far, call.mask, call.record, position=call.position),
                              self.convolve(near, call.mask)], dim=-1)
        kept, window = State(call.state.tensors[:2]), State(call.state.tensors[2:])
        y = torch.cat([self.attend(far, far, call.mask, call.record, kept, call.position),
                       self.convolve(near, call.mask, window)], dim=-1)
        call.state.tensors = kept.tensors + window.tensors
        return y

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        return self.attend.state_shapes(batch, past) + self.convolve.state_shapes(batch, past)


def _canonical(dims: dict[str, Value], facts: Mapping[str, Value]) -> tuple[str, dict[str, Value]]:
    """At ratio 1 nothing is convolved and at ratio 0 nothing attends: those are other kinds."""
    n_heads, width = int(dims["n_heads"]), int(facts["width"])
    if dims["ratio"] == 1:
        return "attention", {"n_heads": n_heads, "n_kv_heads": n_heads, "head_dim": width // n_heads}
    if dims["ratio"] == 0:
        return "conv", {dim.name: dims[dim.name] for dim in CONV_DIMS}
    return "lsra", dims


def _whole_heads(n_heads: int, ratio: float, width: int, positions: str) -> bool:
    step = n_heads * (2 if positions == "rotary" else 1)
    return attending(width, ratio) % step == 0


def _parts(dims: Mapping[str, Any], width: int) -> tuple[DrawnPart, ...]:
    n = float(attending(width, dims["ratio"]))
    return DrawnPart(n, "attends", dims["n_heads"]), DrawnPart(width - n, "convolves")


KIND = Kind(
    name="lsra",
    role="mixer",
    module=LongShortRange,
    help="attention and convolution in parallel",
    paper="Wu et al. (2020), Lite Transformer, arXiv:2004.11886",
    dims=(
        Dim("ratio", float, "share of the channels used for attention", least=0, most=1),
        Dim("n_heads", int, "number of attention heads"),
        *CONV_DIMS,
    ),
    facts=("width", "causal", "positions", "context", "bias"),
    rules=(
        Rule(("n_heads", "ratio", "width", "positions"), _whole_heads,
             "n_heads must divide ratio x width (with rotary positions, 2 x n_heads must)"),
        Rule(("conv_heads", "ratio", "width"),
             lambda heads, ratio, width: (width - attending(width, ratio)) % heads == 0,
             "conv_heads must divide (1 - ratio) x width"),
    ),
    canonical=_canonical,
    words=lambda dims, width: (f"LSRA, {100 * dims['ratio']:.0f} % attention", heads_in_words(dims),
                               f"{dims['conv']} kernel {dims['kernel']}"),
    parts=_parts,
)
