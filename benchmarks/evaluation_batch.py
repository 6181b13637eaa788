"""How many examples to evaluate at a time: tokens per second of a supernet's ends for several batch sizes.

    python benchmarks/evaluation_batch.py [--space lm-small] [--rounds 5]

Sizes take turns, one thread. Prints one JSON line: for each number of tokens in a batch, the throughput relative to
the best, the geometric mean of the smallest and the largest architecture.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import torch

from search_spaces import Architecture, load_space
from supernet import Supernet

TOKENS = (256, 512, 1024, 2048, 4096, 8192)


def main() -> None:
    """Time and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--space", default="lm-small")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    space = load_space(arguments.space)
    net = Supernet(space).eval()
    rates = []
    for arch in (space.smallest(), space.largest()):
        best = np.min([[_seconds_per_token(net, arch, space.context, tokens) for tokens in TOKENS]
                       for _ in range(arguments.rounds)], axis=0)
        rates.append(best.min() / best)
    mean = np.exp(np.mean(np.log(rates), axis=0))
    print(json.dumps({"benchmark": "evaluation_batch", "space": space.name, "device": "cpu", "throughput":
                      {str(tokens): round(float(rate), 3) for tokens, rate in zip(TOKENS, mean)}}))


@torch.no_grad()
def _seconds_per_token(net: Supernet, arch: Architecture, context: int, tokens: int) -> float:
    """Of the same number of tokens for every size."""
    size = max(tokens // context, 1)
    batch = torch.randint(0, net.space.vocab_size, (size, context))
    calls = max(max(TOKENS) // (size * context), 1)
    start = time.perf_counter()
    for _ in range(calls):
        net(arch, batch).logsumexp(-1)
    return (time.perf_counter() - start) / (calls * size * context)


if __name__ == "__main__":
    main()
