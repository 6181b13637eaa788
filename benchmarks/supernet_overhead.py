"""What running on slices costs: a subnet bound to the supernet against the same plain model.

Prints one JSON line. Both are timed in turn, in random order, on one thread; every ratio is the median
over several sizes of the ratio of low quantiles. Memory is the peak of a training step over what the
process held before anything was built, each measured in a process of its own; the supernet's is set
against the plain model's plus the weights of the store.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F
from _measuring import interleaved, resident
from torch import nn

from search_spaces.files.loader import load_space, space_from_text
from supernet import Supernet, Transformer, extract

SPACE = """
schema_version: 1
name: overhead
family: lm
vocab_size: 4096
context: 128
width: [128, 192, 256, 384]
embedding: {lookup: {rank: [64, full]}}
head: {tied: {}}
decoder:
  slots: 8
  depth: {keep: every_other, layers: [2, 4, 6, 8]}
  layers:
    transformer:
      mixer: {attention: {n_heads: {global: [2, 4, 6, 8]}, head_dim: [32, 48]}}
      ffn: {ffn: {inner: {global: ['2x', '4x']}}}
"""
SIZES = ((128, 4, 4, "4x"), (192, 6, 6, "4x"), (256, 6, 8, "2x"), (256, 8, 8, "4x"), (384, 8, 8, "4x"))
BATCH, LENGTH = 8, 128


def architecture(space, size):
    width, depth, heads, inner = size
    genes = {name: values[0] for name, values in space.genes.items()}
    genes |= {"width": width, "decoder.depth": depth, "embedding.lookup.rank": "full",
              "decoder.transformer.mixer.attention.n_heads": heads, "decoder.transformer.ffn.ffn.inner": inner}
    return space.decode(genes)


def loss_of(model: Callable, tokens: torch.Tensor) -> torch.Tensor:
    logits = model(tokens)
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def forward(model: Callable, tokens: torch.Tensor) -> None:
    with torch.no_grad():
        model(tokens)


def train(model: Callable, owner: nn.Module, tokens: torch.Tensor) -> None:
    for parameter in owner.parameters():
        parameter.grad = None
    loss_of(model, tokens).backward()


def times(space, size, rounds: int) -> dict[str, float]:
    torch.manual_seed(0)
    net, arch = Supernet(space), architecture(space, size)
    plain = extract(net, arch)
    tokens = torch.randint(0, space.vocab_size, (BATCH, LENGTH))

    def bound(tokens: torch.Tensor) -> torch.Tensor:
        return net(arch, tokens)

    got = interleaved({
        "plain_forward": lambda: forward(plain, tokens), "bound_forward": lambda: forward(bound, tokens),
        "plain_train": lambda: train(plain, plain, tokens), "bound_train": lambda: train(bound, net, tokens),
    }, rounds)
    for parameter in (*net.parameters(), *plain.parameters()):
        parameter.grad = torch.zeros_like(parameter)
    whole, own = torch.optim.AdamW(net.parameters()), torch.optim.AdamW(plain.parameters())
    got |= interleaved({"bound_optimiser": whole.step, "plain_optimiser": own.step}, rounds)
    return got


def peak_memory(space, size, variant: str) -> dict[str, int]:
    """Peak of a training step in this process, over what it held before."""
    arch = architecture(space, size)
    tokens = torch.randint(0, space.vocab_size, (BATCH, LENGTH))
    tiny = load_space("lm-tiny")
    warm = extract(Supernet(tiny), tiny.smallest())
    train(warm, warm, torch.zeros(1, 8, dtype=torch.long))  # so that libraries loaded on first use do not count
    before = resident("VmRSS")
    if variant == "plain":
        model = Transformer(arch, seed=0)
        owner, call = model, model
    else:
        net = Supernet(space)
        owner, call = net, lambda tokens: net(arch, tokens)
    for _ in range(3):
        train(call, owner, tokens)
    store = sum(p.numel() * p.element_size() for p in owner.parameters())
    return {"peak": resident("VmHWM") - before, "store": store}


def memory_ratio(index: int) -> float:
    memory = {}
    for variant in ("plain", "supernet"):
        out = subprocess.run([sys.executable, __file__, "--memory", variant, "--size", str(index)],
                             check=True, capture_output=True, text=True).stdout
        memory[variant] = json.loads(out)
    return memory["supernet"]["peak"] / (memory["plain"]["peak"] + memory["supernet"]["store"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--memory", choices=("plain", "supernet"), help="measure one peak and print it")
    parser.add_argument("--size", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    space = space_from_text(SPACE, "overhead")
    if options.memory:
        print(json.dumps(peak_memory(space, SIZES[options.size], options.memory)))
        return
    ratios: dict[str, list[float]] = {"forward": [], "train": [], "optimiser": [], "memory": []}
    for index, size in enumerate(SIZES):
        got = times(space, size, options.rounds)
        for name in ("forward", "train", "optimiser"):
            ratios[name].append(got[f"bound_{name}"] / got[f"plain_{name}"])
        ratios["memory"].append(memory_ratio(index))
    line = {"benchmark": "supernet_overhead", "sizes": SIZES}
    line |= {f"{name}_ratio": round(statistics.median(values), 4) for name, values in ratios.items()}
    line |= {f"{name}_ratios": [round(value, 4) for value in values] for name, values in ratios.items()}
    print(json.dumps(line))


if __name__ == "__main__":
    main()
