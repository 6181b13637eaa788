"""Fixed scales for what a model in eight bits multiplies: read off real batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial

import torch
from torch import Tensor

from supernet.batch import Batch
from supernet.compression.quantised import Quantised
from supernet.compression.rounding import MOST
from supernet.train.step import run_model

OUTSIDE = 1e-4
"""The share of a batch's values that a scale leaves outside: it is not stretched for a single outlier. The mean over
batches is taken. On small language models this loses less than the greatest value of all does."""


@torch.no_grad()
def calibrate(model: Quantised, batches: Iterable[Batch]) -> None:
    """Set the scales of a static model's inputs; a product that no batch reaches finds its own at every call.

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
