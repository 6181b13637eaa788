"""Fourier mixing (FNet): the real part of a Fourier transform over tokens and channels; nothing is learned."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from search_spaces.kind import Kind
from supernet.call import Call


class FourierMixing(nn.Module):
    """Re(F_tokens(F_channels(x))), scaled so that it keeps the size of x."""

    def forward(self, x: Tensor, call: Call) -> Tensor:
        if call.mask is not None:
            x = x.masked_fill(~call.mask[..., None], 0.0)
        whole = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
        return torch.fft.fft2(whole, dim=(1, 2), norm="ortho").real.to(x.dtype)


KIND = Kind(
    name="fnet",
    role="mixer",
    module=FourierMixing,
    help="Fourier transform over tokens and channels (FNet)",
    paper="Lee-Thorp et al. (2022), FNet, arXiv:2105.03824",
    causal=False,
    words=lambda dims, width: ("Fourier mixing",),
)
