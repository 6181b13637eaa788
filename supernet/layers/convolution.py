"""Lightweight and dynamic convolution over time, as plain modules."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supernet.call import State
from supernet.declared import Product
from supernet.layers.attention import RESIDUAL_GAIN
from supernet.layout import Layout


class ConvBranch(nn.Module):
    """Lin -> (GLU) -> convolution -> Lin on `channels` channels.

    The kernels are normalised by a softmax over their length; `conv_heads` kernels are each shared by
    consecutive channels. `light` learns the kernels, `dynamic` computes them at every position.

    Args:
        causal: whether the window ends at the position itself instead of being centred on it.
        first: index of its first channel among the model's channels; a channel keeps its place in the store.
    """

    def __init__(self, *, channels: int, kernel: int, conv_heads: int, conv: str, glu: bool, causal: bool,
                 bias: bool, first: int = 0) -> None:
        super().__init__()
        self.channels, self.kernel, self.conv_heads, self.first = channels, kernel, conv_heads, first
        self.glu, self.causal, self.dynamic = glu, causal, conv == "dynamic"
        self.enter = nn.Linear(channels, 2 * channels if glu else channels, bias=bias)
        if self.dynamic:
            self.kernels = nn.Linear(channels, conv_heads * kernel, bias=False)
        else:
            self.weight = nn.Parameter(torch.zeros(conv_heads, kernel))
        self.leave = nn.Linear(channels, channels, bias=bias)
        self.drop = nn.Dropout(0.0)

    def forward(self, x: Tensor, mask: Tensor | None, state: State | None = None) -> Tensor:
        """x: (batch, n, channels); padded tokens are set to 0 before the convolution.

        A `state` contains the window of the last inputs, zeros at the start.
        """
        x = F.glu(self.enter(x)) if self.glu else self.enter(x)
        if mask is not None:
            x = x.masked_fill(~mask[:, -x.shape[1] :, None], 0.0)
        window = None
        if state is not None:
            window = torch.cat([*state.tensors, x], dim=1)
            state.tensors = (window[:, x.shape[1] :],)
        return self.leave(self._dynamic(x, window) if self.dynamic else self._light(x, window))

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        """The window before the next token; independent of the number of tokens."""
        return ((batch, self.kernel - 1, self.channels),)

    def _padding(self) -> tuple[int, int]:
        return (self.kernel - 1, 0) if self.causal else (self.kernel // 2, self.kernel // 2)

    def _light(self, x: Tensor, window: Tensor | None) -> Tensor:
        kernels = self.drop(self.weight.softmax(dim=-1))
        kernels = kernels.repeat_interleave(self.channels // self.conv_heads, dim=0)[:, None]
        wide = F.pad(x.transpose(1, 2), self._padding()) if window is None else window.transpose(1, 2)
        return F.conv1d(wide, kernels, groups=self.channels).transpose(1, 2)

    def _dynamic(self, x: Tensor, window: Tensor | None) -> Tensor:
        """Tap by tap, so that the windows (`kernel` copies of x) are never materialised."""
        batch, n, _ = x.shape
        kernels = self.drop(self.kernels(x).view(batch, n, self.conv_heads, self.kernel).softmax(dim=-1))
        wide = F.pad(x, (0, 0, *self._padding())) if window is None else window
        x = torch.unflatten(wide, -1, (self.conv_heads, -1))
        y = x.new_zeros(batch, n, *x.shape[2:])
        for tap in range(self.kernel):
            y = torch.addcmul(y, x[:, tap : tap + n], kernels[..., tap : tap + 1])
        return y.flatten(2)

    def matrices(self) -> dict[str, Product]:
        """Learned kernels are small, and normalised before use, so they are not matrices."""
        return {} if self.dynamic else {"weight": Product.NONE}

    def layouts(self) -> dict[str, Layout]:
        """Shorter kernels are the middle (or, causal, the end) of longer ones; GLU halves are stored separately."""
        near = "suffix" if self.causal else "center"
        c, at, halves, bank = self.channels, self.first, 2 if self.glu else 1, "glu" if self.glu else ""
        layouts = {
            "enter.weight": Layout((halves, c, c), ("prefix", at, at), bank=bank),
            "leave.weight": Layout(keep=(at, at), gain=RESIDUAL_GAIN),
        }
        if self.enter.bias is not None:
            layouts["enter.bias"] = Layout((halves, c), ("prefix", at), bank=bank)
            layouts["leave.bias"] = Layout(keep=(at,))
        if self.dynamic:
            layouts["kernels.weight"] = Layout((self.conv_heads, self.kernel, c), ("prefix", near, at))
        else:
            layouts["weight"] = Layout(keep=("prefix", near), init="zeros")
        return layouts
