"""How often each stored tensor of a supernet is trained: what is trained rarely is inherited badly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from supernet.supernet import Supernet
from supernet.train.strategy import Strategy

SAMPLES = 400
"""Steps to look at; a share of 1 % is then known to half a percent."""


def coverage(net: Supernet, strategy: Strategy, steps: int) -> dict[str, float]:
    """The share of the architectures of a training that read each stored tensor, least first."""
    seen: Counter[str] = Counter()
    every = range(0, steps, max(steps // SAMPLES, 1))
    passes = 0
    for step in every:
        for arch in strategy.draw(_odd(step, every.step)):
            passes += 1
            seen.update({name for name, _ in net.windows(arch)})
    shares = {name: seen[name] / max(passes, 1) for name in net.owners}
    return dict(sorted(shares.items(), key=lambda item: item[1]))


def _odd(step: int, stride: int) -> int:
    """The step itself, or one beside it where the stride would always meet the same place of a strategy's pattern."""
    return step + (step // stride) % 4 if stride > 1 else step


def least_trained(shares: Mapping[str, float], n: int = 3) -> list[tuple[str, float]]:
    """The tensors with the least shares, one for each place and kind of block."""
    found: dict[str, tuple[str, float]] = {}
    for name, share in shares.items():
        found.setdefault("/".join(name.split("/")[:4]), (name, share))
    return list(found.values())[:n]
