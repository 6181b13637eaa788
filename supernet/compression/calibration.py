"""Calibration of fixed activation scales for int8 models on real batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial

import torch
from torch import Tensor

from supernet.batch import Batch
from supernet.compression.quantised import Quantised
from supernet.compression.rounding import MOST
from supernet.inference import run_model

OUTSIDE = 1e-4
"""Share of a batch's values outside the scale, so that single outliers do not stretch it; averaged over batches.

On small language models this loses less quality than the maximum does.
"""


@torch.no_grad()
def calibrate(model: Quantised, batches: Iterable[Batch]) -> None:
    """Set the input scales of a static model; a product that no batch reaches keeps dynamic scales.

    Raises:
        InputError: memory ran out or an input does not suit the model, as in any forward pass.
    """
    seen: dict[tuple[str, int], list[Tensor]] = defaultdict(list)

    def note(name: str, use: int, x: Tensor) -> None:
        values = x.abs().flatten()
        seen[name, use].append(values.kthvalue(max(round(values.numel() * (1 - OUTSIDE)), 1)).values)

    for name in model.inputs:
        model.input_scales(name).zero_()
        model.watch[name] = partial(note, name)
    try:
        for batch in batches:
            run_model(model, model.arch, batch)
    finally:
        model.watch.clear()
    for (name, use), greatest in seen.items():
        model.input_scales(name)[use] = torch.stack(greatest).mean() / MOST
