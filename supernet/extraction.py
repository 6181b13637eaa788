"""Copy the slices of one architecture into its plain model."""

from __future__ import annotations

import torch

from search_spaces.architecture import Architecture
from search_spaces.units import plan
from supernet.store import WeightStore
from supernet.transformer import Transformer


def extract(net: WeightStore, arch: Architecture) -> Transformer:
    """The plain model of `arch` with the store's weights and training mode; its outputs equal the supernet's."""
    with torch.device("meta"):
        model = Transformer(arch, dropout=net.dropout)
    like = next(net.parameters())
    model.to_empty(device=like.device).to(like.dtype)
    with torch.no_grad():
        for step in plan(arch):
            module = model.get_submodule(step.path)
            tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
            for name, weights in net.slices(step).items():
                tensors[name].copy_(weights)
    return model.train(net.training)
