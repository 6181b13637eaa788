"""Loss of prefixes of a trained model before any training: ordered by importance, as it is, in random order.

    python benchmarks/ordered_prefixes.py SUBNET [--score activation] [--sequences 32] [--length 128]

A subnet with a run is calibrated on its training data and evaluated on its validation data. A language model without
one, such as an imported model, is evaluated on text that it writes itself at temperature 1, so that the loss is the
entropy of what it writes; calibration text is sampled apart. Prints one JSON line: the loss in nats of the whole model,
and for 75, 50 and 25 % of the feed-forward channels, heads, width and layers the loss of each order; random is the mean
of three.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import _results
import torch

from nas.core.subnet import Subnet
from search_spaces import Architecture, SearchSpace
from search_spaces.files.loader import space_from_data
from supernet import Supernet, Transformer
from supernet.batch import Batch
from supernet.filling import fill
from supernet.inference import run_model
from supernet.train.losses import label_loss, labelled
from supernet.train.ordering.groups import find_groups
from supernet.train.ordering.order import order, permute, permute_stored, sorted_order
from supernet.train.ordering.scores import score_layers

SHARES, SEEDS = (0.75, 0.5, 0.25), (0, 1, 2)
SETTINGS = ("vocab_size", "context", "positions", "norm", "norm_eps", "placement", "bias", "n_classes", "n_types")


def stack_of(arch: Architecture) -> str:
    """The only stack of a language model or an encoder."""
    return next(iter(arch.stacks))


def space_around(arch: Architecture) -> SearchSpace:
    """The architectures that `shrunk` makes."""
    data, stack = arch.to_dict(), stack_of(arch)
    layer = data[stack][0]
    blocks = {role: {name: value for name, value in block.items() if name not in ("kind", "slot")}
              for role, block in layer.items()}
    sizes = {"ffn": {"inner": [ffn_of(arch, share)["inner"] for share in (*SHARES, 1)]},
             "mixer": {name: [heads_of(arch, share)[name] for share in (*SHARES, 1)] for name in heads_of(arch, 1)}}
    for role, dims in sizes.items():
        blocks[role] |= {name: sorted(set(values)) for name, values in dims.items()}
    if "n_heads" in blocks["mixer"]:
        blocks["mixer"]["n_kv_heads"] = "n_heads"
    ends = {role: {data[role]["kind"]: {name: value for name, value in data[role].items() if name != "kind"}}
            for role in ("embedding", "head")}
    ends["embedding"][data["embedding"]["kind"]]["rank"] = "full"
    return space_from_data({
        "schema_version": 1, "name": "around", "family": arch.family,
        "width": sorted({part(arch.width, share) for share in (*SHARES, 1)}),
        **{name: data[name] for name in SETTINGS if name in data}, **ends,
        stack: {"slots": len(data[stack]), "depth": {"keep": "searched", "at_least": 1} if len(data[stack]) <= 12 else
                {"keep": "every_other", "layers": list(range(1, len(data[stack]) + 1))}, "layers": {"plain": {
                    role: {layer[role]["kind"]: dims} for role, dims in blocks.items()}}}}, "around")


def part(value: int, share: float) -> int:
    """A share of a number, at least 1."""
    return max(round(value * share), 1)


def ffn_of(arch: Architecture, share: float) -> dict[str, int]:
    """The dims of a feed-forward with a share of the channels."""
    return {"inner": part(int(arch.stacks[stack_of(arch)][0].ffn["inner"]), share)}


def heads_of(arch: Architecture, share: float) -> dict[str, int]:
    """The dims of attention with a share of the heads; of grouped queries, both numbers are reduced."""
    mixer = arch.stacks[stack_of(arch)][0].mixer
    if mixer.kind != "grouped_attention":
        n = part(int(mixer["n_heads"]), share)
        return {"n_heads": n, "n_kv_heads": n}
    groups, queries = int(mixer["n_kv_heads"]), int(mixer["queries"])
    kept = part(groups, share**0.5)
    return {"n_kv_heads": kept, "queries": min(max(round(groups * queries * share / kept), 1), queries)}


def shrunk(arch: Architecture, dim: str, share: float) -> Architecture:
    """The architecture with a share of one dim in all layers."""
    if dim == "width":
        width = part(arch.width, share)
        return replace(arch, width=width, embedding=_with(arch.embedding, {"rank": width}))
    stack = stack_of(arch)
    if dim == "ffn":
        layers = [replace(layer, ffn=_with(layer.ffn, ffn_of(arch, share))) for layer in arch.stacks[stack]]
    else:
        layers = [replace(layer, mixer=_with(layer.mixer, heads_of(arch, share))) for layer in arch.stacks[stack]]
    return replace(arch, **{stack: tuple(layers)})


def _with(block: Any, dims: dict[str, int]) -> Any:
    return type(block).of(block.kind, {**dict(block.dims), **dims})


@torch.no_grad()
def loss_of(net: Supernet, arch: Architecture, batches: list[Batch]) -> float:
    """The mean loss in nats."""
    total = count = 0.0
    for batch in batches:
        logits, labels = labelled(run_model(net, arch, batch), batch.labels)
        total += float(label_loss(logits, labels))
        count += len(labels)
    return total / count


@torch.no_grad()
def written(model: Transformer, sequences: int, length: int, seed: int) -> list[Batch]:
    """Text that the model writes, eight sequences to a batch."""
    batches = []
    for first in range(0, sequences, 8):
        begin = torch.ones(min(8, sequences - first), 1, dtype=torch.long)
        ids = torch.as_tensor(model.generate(begin, length, temperature=1.0, seed=seed + first))
        batches.append(Batch(ids[:, :-1], ids[:, 1:]))
    return batches


def batches_of(subnet: Subnet, model: Transformer, sequences: int, length: int) -> tuple[list[Batch], list[Batch]]:
    """Batches to calibrate with, and batches to evaluate."""
    if not subnet.facts.run:
        return written(model, 16, length, 1000), written(model, sequences, length, 0)
    prepared = subnet.prepared()
    return [prepared.train.batch(i, 32, 0) for i in range(8)], list(prepared.valid.in_order(32, sequences))


def filled(space: SearchSpace, model: Transformer) -> Supernet:
    """A supernet whose largest architecture is the model."""
    net = Supernet(space).eval()
    fill(net, model)
    return net


def permuted(space: SearchSpace, model: Transformer, seed: int) -> Supernet:
    """The same in a random order."""
    net, groups = filled(space, model), find_groups(model.arch).groups
    noise = torch.Generator().manual_seed(seed)
    orders = {group.name: sorted_order(group, torch.rand(group.size, generator=noise)) for group in groups}
    permute(net, groups, orders, permute_stored(net))
    return net


def ordered(space: SearchSpace, model: Transformer, calibration: list[Batch], score: str) -> Supernet:
    """The same by importance."""
    net = filled(space, model)
    order(net, calibration, score, arch=model.arch)
    return net


def layer_sets(scores: dict[str, float], stack: str, depth: int, share: float) -> dict[str, list[tuple[int, ...]]]:
    """Which layers stay: the most important, the first ones, three random choices."""
    n = part(depth, share)
    best = sorted(range(depth), key=lambda i: -scores[f"{stack}.{i}"])[:n]
    drawn = [random.Random(f"{seed}/{n}").sample(range(depth), n) for seed in SEEDS]  # noqa: S311
    return {"ordered": [tuple(sorted(best))], "unordered": [tuple(range(n))],
            "random": [tuple(sorted(layers)) for layers in drawn]}


def measure(model: Transformer, calibration: list[Batch], test: list[Batch], score: str) -> dict[str, dict[str, float]]:
    """The losses of all prefixes, by prefix and order; one store is in memory at a time."""
    arch, space, stack = model.arch, space_around(model.arch), stack_of(model.arch)
    small = {"whole": arch, **{f"{dim} {share:.0%}": shrunk(arch, dim, share)
                               for dim in ("ffn", "heads", "width") for share in SHARES}}
    makers: dict[str, list[Callable[[], Supernet]]] = {
        "ordered": [lambda: ordered(space, model, calibration, score)], "unordered": [lambda: filled(space, model)],
        "random": [lambda seed=seed: permuted(space, model, seed) for seed in SEEDS]}
    losses: dict[str, dict[str, list[float]]] = {name: {how: [] for how in makers} for name in small}
    for how, several in makers.items():
        for make in several:
            net = make()
            for name, smaller in small.items():
                losses[name][how].append(loss_of(net, smaller, test))
    scores, net = score_layers(model, calibration), filled(space, model)
    for share in SHARES:
        chosen = layer_sets(scores, stack, arch.depth, share)
        losses[f"depth {share:.0%}"] = {how: [loss_of(net, replace(arch, **{stack: tuple(
            arch.stacks[stack][i] for i in kept)}), test) for kept in several] for how, several in chosen.items()}
    return {name: {how: round(sum(values) / len(values), 4) for how, values in by_order.items()}
            for name, by_order in losses.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("subnet", type=Path)
    parser.add_argument("--score", default="activation")
    parser.add_argument("--sequences", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    _results.add_option(parser)
    arguments = parser.parse_args()
    subnet = Subnet.open(str(arguments.subnet))
    model = subnet.model()
    data = batches_of(subnet, model, arguments.sequences, arguments.length)
    losses = measure(model, *data, arguments.score)
    print(json.dumps({"benchmark": "ordered_prefixes", "subnet": arguments.subnet.name, "score": arguments.score,
                      "losses": losses}))
    _results.append(arguments.results, "ordered_prefixes", [
        {"model": arguments.subnet.name, "score": arguments.score, "prefix": name, "labels": sum(
            batch.n_labels for batch in data[1]), **by_order} for name, by_order in losses.items()])


if __name__ == "__main__":
    main()
