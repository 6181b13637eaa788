"""How often each stored tensor of a supernet is trained: what is trained rarely is inherited badly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from supernet.supernet import Supernet
from supernet.train.strategy import Strategy, sampled_steps


def coverage(net: Supernet, strategy: Strategy, steps: int) -> dict[str, float]:
    """The share of the architectures of a training that read each stored tensor, least first."""
    seen: Counter[str] = Counter()
    passes = 0
    for step in sampled_steps(steps):
        for arch in strategy.draw(step):
            passes += 1
            seen.update({name for name, _ in net.windows(arch)})
    shares = {name: seen[name] / max(passes, 1) for name in net.owners}
    return dict(sorted(shares.items(), key=lambda item: item[1]))


def least_trained(shares: Mapping[str, float], n: int = 3) -> list[tuple[str, float]]:
    """The tensors with the least shares, one for each place and kind of block."""
    rarest: dict[str, tuple[str, float]] = {}
    for name, share in shares.items():
        rarest.setdefault("/".join(name.split("/")[:4]), (name, share))
    return list(rarest.values())[:n]
