"""No feed-forward: for layers whose mixer does everything."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from search_spaces.kind import Kind
from supernet.call import Call


class NoFeedForward(nn.Module):
    """Adds nothing to the stream; what surrounds a sub-layer (norms) stays."""

    def forward(self, x: Tensor, call: Call) -> Tensor:
        return torch.zeros_like(x)


KIND = Kind(name="no_ffn", role="ffn", module=NoFeedForward, help="no feed-forward; for mixers that are whole layers")
