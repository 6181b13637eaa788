"""Terraformer's attention: a multiplicative layer and small maps of its modules compute queries, keys and values."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from search_spaces.kind import Dim, DrawnPart, Kind, Rule
from supernet.call import Call
from supernet.declared import Product
from supernet.layers.attention import RESIDUAL_GAIN, MultiHead
from supernet.layout import Layout


class Multiplicative(nn.Module):
    """y[s, m] = sum over i of x[i] D[s, i] E[i, m]: any map of modules s, with few parameters."""

    def __init__(self, width: int, modules: int) -> None:
        super().__init__()
        self.gates = nn.Parameter(torch.empty(modules, width))
        self.mix = nn.Parameter(torch.empty(width, width // modules))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, n, width) -> the same, module by module."""
        return ((x[..., None, :] * self.gates) @ self.mix).flatten(-2)

    def matrices(self) -> dict[str, Product]:
        return {"gates": Product.NONE, "mix": Product.MATMUL}

    def layouts(self) -> dict[str, Layout]:
        return {"gates": Layout(init=1.0), "mix": Layout(inputs=(0,))}


class ModuleMap(nn.Module):
    """A separate linear map per module: the paper's convolution, over one token."""

    def __init__(self, modules: int, size: int, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(modules, size, size))
        self.bias = nn.Parameter(torch.zeros(modules, size)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """(batch, n, modules * size) -> the same."""
        modules, size, _ = self.weight.shape
        split = x.reshape(-1, modules, size).transpose(0, 1)
        if self.bias is None:
            y = torch.bmm(split, self.weight)
        else:
            y = torch.baddbmm(self.bias[:, None], split, self.weight)
        return y.transpose(0, 1).reshape(x.shape)

    def matrices(self) -> dict[str, Product]:
        return {"weight": Product.GROUPED, "bias": Product.NONE}

    def layouts(self) -> dict[str, Layout]:
        return {"weight": Layout(inputs=(1,)), "bias": Layout(init="zeros")}


class ModuleHeads(MultiHead):
    """Attention whose queries, keys and values are maps of modules."""

    def __init__(self, *, modules: int, bias: bool, **settings: Any) -> None:
        super().__init__(bias=bias, **settings)
        size = self.q.in_features // modules
        self.q, self.k, self.v = (ModuleMap(modules, size, bias) for _ in range(3))  # type: ignore[assignment]

    def layouts(self) -> dict[str, Layout]:
        return {"o.weight": Layout((self.o.out_features, self.n_heads, self.head_dim), inputs=(1, 2),
                                   gain=RESIDUAL_GAIN)}


class SparseQkvAttention(nn.Module):
    """Attention among tokens that one multiplicative layer has prepared."""

    def __init__(self, *, width: int, causal: bool, positions: str, context: int, bias: bool, n_heads: int,
                 modules: int) -> None:
        super().__init__()
        self.prepare = Multiplicative(width, modules)
        self.attend = ModuleHeads(
            modules=modules, query_dim=width, memory_dim=width, out_dim=width, n_heads=n_heads,
            head_dim=width // n_heads, n_kv_heads=n_heads, bias=bias, causal=causal,
            rotary_length=context if positions == "rotary" else 0)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        x = self.prepare(x)
        return self.attend(x, x, call.mask, call.record, call.state, call.position)

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        return self.attend.state_shapes(batch, past)


KIND = Kind(
    name="sparse_qkv",
    role="mixer",
    module=SparseQkvAttention,
    help="attention with sparse projections of queries, keys and values",
    paper="Jaszczur et al. (2021), Sparse is Enough in Scaling Transformers, arXiv:2111.12763",
    dims=(
        Dim("n_heads", int, "number of heads, which split the width"),
        Dim("modules", int, "number of modules that the width is split into; more modules mean fewer parameters",
            least=2),
    ),
    facts=("width", "causal", "positions", "context", "bias"),
    rules=(
        Rule(("n_heads", "width"), lambda heads, width: width % heads == 0, "n_heads must divide the width"),
        Rule(("modules", "width"), lambda modules, width: width % modules == 0, "modules must divide the width"),
        Rule(("n_heads", "width", "positions"), lambda heads, width, positions: positions != "rotary"
             or width // heads % 2 == 0, "rotary positions need heads with an even number of channels"),
    ),
    words=lambda dims, width: ("sparse attention", f"{dims['n_heads']} heads", f"{dims['modules']} modules"),
    parts=lambda dims, width: (DrawnPart(width, "attends", dims["n_heads"]),),
)
