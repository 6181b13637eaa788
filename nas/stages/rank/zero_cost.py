"""Zero-cost predictors: scores of an architecture from one batch and its initial weights, without training."""

from __future__ import annotations

import torch
from torch import nn

from search_spaces import Architecture
from supernet import Transformer
from supernet.batch import Batch
from supernet.inference import run_model
from supernet.train.losses import label_loss, labelled


def zero_cost(arch: Architecture, batch: Batch, seed: int) -> dict[str, float]:
    """The gradient norm of the loss at initialisation, and synaptic flow; more of either predicts a lower loss."""
    model = Transformer(arch, seed=seed).double().eval()
    logits, labels = labelled(run_model(model, arch, batch), batch.labels)
    (label_loss(logits, labels, 0.0) / max(batch.n_labels, 1)).backward()  # type: ignore[no-untyped-call]
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    return {"grad_norm": float(norm), "synflow": _synaptic_flow(model, arch, batch)}


def _synaptic_flow(model: nn.Module, arch: Architecture, batch: Batch) -> float:
    """The sum of |weight x gradient| for the sum of all outputs, with every weight replaced by its magnitude."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.abs_()
            parameter.grad = None
    run_model(model, arch, batch).sum().backward()
    return sum(float((parameter.detach() * parameter.grad).abs().sum()) for parameter in model.parameters()
               if parameter.grad is not None)
