"""Average pooling between layers, and the up-sampling that undoes it at the end of the stack (Funnel-Transformer)."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from search_spaces.kind import SKIP, Dim, Kind
from supernet.call import Call


class AveragePool(nn.Module):
    """The mean of every `factor` neighbouring tokens; padding does not count."""

    def __init__(self, *, factor: int) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor, call: Call) -> tuple[Tensor, Call]:
        real = (torch.ones_like(x[..., 0]) if call.mask is None else call.mask.to(x.dtype))[..., None]
        means, shares = self._windows(x * real), self._windows(real)
        mask = None if call.mask is None else shares[..., 0] > 0
        before = (*call.before, (x, call.mask))
        return means / shares.clamp(min=1 / self.factor), replace(call, mask=mask, before=before)

    def _windows(self, x: Tensor) -> Tensor:
        """The means of windows, the last one padded with 0. Written so that exporters can keep the length dynamic."""
        return F.avg_pool1d(F.pad(x.transpose(1, 2), (0, self.factor - 1)), self.factor).transpose(1, 2)


class UpSample(nn.Module):
    """Repeats every token `factor` times and adds the hidden states before pooling."""

    def __init__(self, *, factor: int) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor, call: Call) -> tuple[Tensor, Call]:
        *before, (old, mask) = call.before or ((None, None),)  # when counted or timed alone, there is nothing to add
        length = x.shape[1] * self.factor if old is None else old.shape[1]
        x = x.index_select(1, torch.arange(length, device=x.device) // self.factor)
        return x if old is None else x + old, replace(call, mask=mask, before=tuple(before))


class Skip(nn.Module):
    """Does nothing."""

    def forward(self, x: Tensor, call: Call) -> tuple[Tensor, Call]:
        return x, call


FACTOR = Dim("factor", int, "number of tokens averaged into one", least=2)
POOL = Kind(
    name="pool", role="between", module=AveragePool, dims=(FACTOR,), causal=False,
    length=lambda dims: 1 / int(dims["factor"]), restored_by="upsample",
    help="average pooling; the length is restored at the end of the stack",
    paper="Dai et al. (2020), Funnel-Transformer, arXiv:2006.03236",
)
UP_SAMPLE = Kind(
    name="upsample", role="restore", module=UpSample, causal=False,
    dims=(Dim("factor", int, "number of times each token is repeated", least=2),),
    help="repeats tokens and adds the hidden states from before pooling",
    paper="Dai et al. (2020), Funnel-Transformer, arXiv:2006.03236",
)
NOTHING = Kind(name=SKIP, role="between", module=Skip, help="no block after the layer")
