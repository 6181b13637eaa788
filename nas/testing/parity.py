"""The supernet against extracted models: outputs, gradients outside the slice, parameter counts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import torch

from nas.core.costs import count_params
from search_spaces import Architecture, SearchSpace
from search_spaces.units import plan
from supernet import Supernet, extract

TOLERANCE = 1e-5


@dataclass
class Report:
    """What a comparison found."""

    architectures: int = 0
    bit_equal: int = 0
    worst: float = 0.0
    leaks: list[str] = field(default_factory=list)
    miscounts: list[str] = field(default_factory=list)
    covered: dict[str, dict[str, set[Any]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))

    @property
    def ok(self) -> bool:
        return self.worst <= TOLERANCE and not self.leaks and not self.miscounts and self.architectures > 0


def randomised(space: SearchSpace, seed: int = 0) -> Supernet:
    """A supernet whose norms, biases and kernels are random too: ones and zeros would hide slicing faults."""
    net = Supernet(space, seed=seed).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in (*net.parameters(), *net.buffers()):
            tensor.add_(torch.randn(tensor.shape, generator=generator) * 0.05)
    return net


def batch(arch: Architecture, seed: int, length: int = 10) -> tuple[tuple[torch.Tensor, ...], dict[str, torch.Tensor]]:
    """Token ids and padding masks of a model's own families."""
    generator = torch.Generator().manual_seed(seed)

    def ids(n: int, top: int) -> torch.Tensor:
        return torch.randint(0, top, (2, n), generator=generator)

    mask = torch.ones(2, length, dtype=torch.bool)
    mask[1, length - 3 :] = False
    keywords = {"mask": mask}
    if arch.n_types:
        keywords["types"] = ids(length, arch.n_types)
    if arch.family != "seq2seq":
        return (ids(length, arch.vocab_size),), keywords
    return (ids(length, arch.vocab_size), ids(length - 2, arch.vocab_size)), keywords


def leaks(net: Supernet, arch: Architecture) -> list[str]:
    """Stored tensors that a gradient reached outside the architecture's slices. Changes the gradients."""
    reached = {name: tensor.grad for name, tensor in net.named_parameters() if tensor.grad is not None}
    for name, window in net.windows(arch):
        if name in reached:
            reached[name][window] = 0
    return [name for name, gradient in reached.items() if gradient.any()]


def compare(net: Supernet, arch: Architecture, seed: int, report: Report) -> None:
    """One architecture: output, gradient and count."""
    inputs, keywords = batch(arch, seed)
    for tensor in net.parameters():
        tensor.grad = None
    bound = net(arch, *inputs, **keywords)
    bound.square().sum().backward()
    model = extract(net, arch)
    with torch.no_grad():
        plain = model(*inputs, **keywords)
    assert bound.isfinite().all(), f"{arch.to_json()}: not finite"
    report.architectures += 1
    report.bit_equal += bool(torch.equal(bound, plain))
    report.worst = max(report.worst, float((bound.detach() - plain).abs().max()))
    report.leaks += [f"{arch.key[:12]} {name}" for name in leaks(net, arch)]
    if count_params(arch) != sum(tensor.numel() for tensor in model.parameters()):
        report.miscounts.append(arch.key[:12])
    for step in plan(arch):
        for name, value in step.unit.block.dims:
            report.covered[step.unit.block.kind][name].add(value)
