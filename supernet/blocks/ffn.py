"""The position-wise feed-forward network, plain or gated."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from search_spaces.kind import TIMES_WIDTH, Dim, DrawnPart, Kind, Rule
from supernet.call import Call
from supernet.layers.attention import RESIDUAL_GAIN
from supernet.layout import Layout


def linear(x: Tensor) -> Tensor:
    """No activation, for a gate without one."""
    return x


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU by its approximation with a tanh, as GPT-2 has it."""
    return F.gelu(x, approximate="tanh")


ACTIVATIONS = {
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "elu": F.elu,
    "selu": F.selu,
    "softplus": F.softplus,
    "sigmoid": F.sigmoid,
    "linear": linear,
    "gelu_tanh": gelu_tanh,
}


class FeedForward(nn.Module):
    """act(x W) W2, or (act(x W) * x V) W2 where gated: GLU, ReGLU, GEGLU, SwiGLU, LiGLU by activation."""

    def __init__(self, *, width: int, bias: bool, inner: int, activation: str, gated: bool) -> None:
        super().__init__()
        self.activate = ACTIVATIONS[activation]
        self.up = nn.Linear(width, inner, bias=bias)
        self.gate = nn.Linear(width, inner, bias=bias) if gated else None
        self.down = nn.Linear(inner, width, bias=bias)
        self.drop = nn.Dropout(0.0)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        if self.gate is None:
            return self.down(self.drop(self.activate(self.up(x))))
        return self.down(self.drop(self.activate(self.up(x)) * self.gate(x)))

    def layouts(self) -> dict[str, Layout]:
        """A gate with a bias starts open, so that gated and plain forms, which share `up` and `down`, start equal."""
        return {"down.weight": Layout(gain=RESIDUAL_GAIN), "gate.bias": Layout(init="ones")}


KIND = Kind(
    name="ffn",
    role="ffn",
    module=FeedForward,
    help="feed-forward network",
    paper="Shazeer (2020), GLU Variants Improve Transformer, arXiv:2002.05202",
    dims=(
        Dim("inner", int, "inner width", expressions=(TIMES_WIDTH,)),
        Dim("activation", str, "activation (with gated: sigmoid is GLU, linear is LiGLU)", default="gelu",
            choices=tuple(ACTIVATIONS)),
        Dim("gated", bool, "whether a second linear map gates the first", default=False),
    ),
    facts=("width", "bias"),
    rules=(Rule(("activation", "gated"), lambda activation, gated: gated or activation != "linear",
                "two linear maps in a row equal one; use linear only with gated"),),
    words=lambda dims, width: ("FFN", str(dims["inner"]), dims["activation"], "gated" if dims["gated"] else ""),
    parts=lambda dims, width: (DrawnPart(dims["inner"]),),
)
