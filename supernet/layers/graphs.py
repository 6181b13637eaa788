"""What a block may ask when a graph of it is made: kernels that skip work need to know how they will be run."""

from __future__ import annotations

import torch
from torch import Tensor


def one_row(x: Tensor) -> bool:
    """Whether to fetch the weights that each row of x (rows, width) needs instead of computing with all of them.

    So in the exported graph of a single token, where it is fastest. And wherever multiply-adds are counted: the
    traced operators are then those that no method can leave out.
    """
    rows = x.shape[0]
    counted: bool = torch.jit.is_tracing()  # type: ignore[no-untyped-call, attr-defined]
    return counted or (torch.compiler.is_compiling() and isinstance(rows, int) and rows == 1)
