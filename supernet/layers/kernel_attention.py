"""Attention whose kernel is a product of features: sums over the keys serve all queries, in linear time."""

from __future__ import annotations

import torch
from torch import Tensor

from supernet.call import Call
from supernet.layers.self_heads import SelfHeads
from supernet.layers.windows import chunked, joined

CHUNK = 64
"""Tokens whose products with each other are computed at once in the causal form; any number gives the same result."""


class KernelHeads(SelfHeads):
    """y_i = sum_j f(q_i) g(k_j) v_j / sum_j f(q_i) g(k_j); a subclass gives the features f and g.

    In the causal form the sums are prefix sums, and decoding remembers them alone.
    """

    n_features: int
    least = 1e-6
    """Lower bound of the denominator."""

    def query_features(self, q: Tensor) -> Tensor:
        """(batch, heads, n, head_dim) -> (batch, heads, n, n_features)."""
        raise NotImplementedError

    def key_features(self, k: Tensor) -> Tensor:
        """As `query_features`."""
        raise NotImplementedError

    def forward(self, x: Tensor, call: Call) -> Tensor:
        q, k, v = self.project(x, call.position)
        if q.dtype in (torch.bfloat16, torch.float16):  # sums over many tokens need more digits
            with torch.autocast(q.device.type, enabled=False):
                y = self._mixed(q.float(), k.float(), v.float(), call).to(q.dtype)
        else:
            y = self._mixed(q, k, v, call)
        return self.merged(y)

    def _mixed(self, q: Tensor, k: Tensor, v: Tensor, call: Call) -> Tensor:
        f, g = self.query_features(q), self.key_features(k)
        if call.mask is not None:
            g = g.masked_fill(~call.mask[:, None, -g.shape[2] :, None], 0.0)
        v = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)  # its last channel sums the weights
        y = self._prefix_sums(f, g, v, call) if self.causal else f @ (g.transpose(-2, -1) @ v)
        return y[..., :-1] / y[..., -1:].clamp(min=self.least)

    def _prefix_sums(self, f: Tensor, g: Tensor, v: Tensor, call: Call) -> Tensor:
        n = f.shape[2]
        size = CHUNK if call.state is None else min(CHUNK, n)
        f, g, v = (chunked(tensor, size) for tensor in (f, g, v))  # (batch, heads, chunks, size, ...)
        sums = g.transpose(-2, -1) @ v
        before = sums.cumsum(dim=2) - sums
        if call.state is not None:
            (past,) = call.state.tensors
            before = before + past[:, :, None].to(f.dtype)
            call.state.tensors = ((before[:, :, -1] + sums[:, :, -1]).to(past.dtype),)
        return joined((f @ g.transpose(-2, -1)).tril() @ v + f @ before, n)

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        """The sums over all keys, however many there were."""
        return ((batch, self.n_heads, self.n_features, self.head_dim + 1),)
