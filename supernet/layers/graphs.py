"""Information for blocks while they are traced: kernels that skip work need to know how they will be run."""

from __future__ import annotations

import torch
from torch import Tensor


def one_row(x: Tensor) -> bool:
    """Whether to fetch the weights that each row of x (rows, width) needs instead of computing with all of them.

    True in the exported graph of a single token, where this is fastest, and when multiply-adds are counted: the traced
    operators are then those that no method can avoid.
    """
    rows = x.shape[0]
    counted: bool = torch.jit.is_tracing()  # type: ignore[no-untyped-call, attr-defined]
    return counted or (torch.compiler.is_compiling() and isinstance(rows, int) and rows == 1)
