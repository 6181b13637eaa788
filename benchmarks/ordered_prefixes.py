"""Loss of prefixes of a trained language model before any training: ordered by importance, as it is, in random order.

    python benchmarks/ordered_prefixes.py SUBNET [--score activation] [--sequences 32]

The folder holds `architecture.json` and `model.safetensors` of a model of the family lm whose layers are alike. Text is
sampled from the model itself at temperature 1, so the loss is the entropy of what it writes; calibration text is
sampled apart. Prints one JSON line: the loss in nats of the whole model, and for 75, 50 and 25 % of the feed-forward
channels, heads, width and layers the loss of each order; random is the mean of three.
"""

from __future__ import annotations

import argparse
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from search_spaces import Architecture, SearchSpace
from search_spaces.files.loader import space_from_data
from supernet import Supernet, Transformer
from supernet.batch import Batch
from supernet.filling import fill
from supernet.train.losses import label_loss, labelled
from supernet.train.ordering.groups import find_groups
from supernet.train.ordering.order import order, permute, permute_stored, sorted_order
from supernet.train.ordering.scores import score_layers
from supernet.train.step import run_model

SHARES, SEEDS = (0.75, 0.5, 0.25), (0, 1, 2)
SETTINGS = ("vocab_size", "context", "positions", "norm", "norm_eps", "placement", "bias")


def space_around(arch: Architecture) -> SearchSpace:
    """The architectures that `shrunk` makes."""
    data = arch.to_dict()
    layer = data["decoder"][0]
    full = int(data["width"])
    blocks = {role: {name: value for name, value in block.items() if name not in ("kind", "slot")}
              for role, block in layer.items()}
    blocks["ffn"]["inner"] = sorted({part(blocks["ffn"]["inner"], share) for share in (*SHARES, 1)})
    heads = blocks["mixer"]["n_heads"]
    blocks["mixer"]["n_heads"] = sorted({part(heads, share) for share in (*SHARES, 1)})
    blocks["mixer"]["n_kv_heads"] = "n_heads"
    ends = {role: {data[role]["kind"]: {name: value for name, value in data[role].items() if name != "kind"}}
            for role in ("embedding", "head")}
    ends["embedding"][data["embedding"]["kind"]]["rank"] = "full"
    return space_from_data({
        "schema_version": 1, "name": "around", "family": "lm", "width": sorted({part(full, s) for s in (*SHARES, 1)}),
        **{name: data[name] for name in SETTINGS if name in data}, **ends,
        "decoder": {"slots": len(data["decoder"]), "depth": {"keep": "searched", "at_least": 1}, "layers": {"plain": {
            role: {layer[role]["kind"]: dims} for role, dims in blocks.items()}}}}, "around")


def part(value: int, share: float) -> int:
    """A share of a number, at least 1."""
    return max(round(value * share), 1)


def shrunk(arch: Architecture, dim: str, share: float) -> Architecture:
    """The architecture with a share of one dim in all layers."""
    if dim == "width":
        width = part(arch.width, share)
        return replace(arch, width=width, embedding=_with(arch.embedding, rank=width))
    layers = []
    for layer in arch.decoder:
        if dim == "ffn":
            layers.append(replace(layer, ffn=_with(layer.ffn, inner=part(int(layer.ffn["inner"]), share))))
        else:
            heads = part(int(layer.mixer["n_heads"]), share)
            layers.append(replace(layer, mixer=_with(layer.mixer, n_heads=heads, n_kv_heads=heads)))
    return replace(arch, decoder=tuple(layers))


def _with(block: Any, **dims: int) -> Any:
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
    found = []
    for first in range(0, sequences, 8):
        begin = torch.ones(min(8, sequences - first), 1, dtype=torch.long)
        ids = model.generate(begin, length, temperature=1.0, seed=seed + first)
        ids = torch.as_tensor(ids)
        found.append(Batch(ids[:, :-1], ids[:, 1:]))
    return found


def filled(space: SearchSpace, model: Transformer) -> Supernet:
    """A supernet whose largest architecture is the model."""
    net = Supernet(space).eval()
    fill(net, model)
    return net


def layer_sets(scores: dict[str, float], depth: int, share: float) -> dict[str, list[tuple[int, ...]]]:
    """Which layers stay: the most important, the first ones, three random choices."""
    n = part(depth, share)
    best = sorted(range(depth), key=lambda i: -scores[f"decoder.{i}"])[:n]
    drawn = [random.Random(f"{seed}/{n}").sample(range(depth), n) for seed in SEEDS]  # noqa: S311
    return {"ordered": [tuple(sorted(best))], "unordered": [tuple(range(n))],
            "random": [tuple(sorted(each)) for each in drawn]}


def measure(model: Transformer, score: str, sequences: int, length: int) -> dict[str, Any]:
    """The losses of all prefixes."""
    arch, space = model.arch, space_around(model.arch)
    calibration, test = written(model, 16, length, 1000), written(model, sequences, length, 0)
    nets = {"unordered": [filled(space, model)], "ordered": [filled(space, model)],
            "random": [filled(space, model) for _ in SEEDS]}
    order(nets["ordered"][0], calibration, score, arch=arch)
    groups = find_groups(arch).groups
    for net, seed in zip(nets["random"], SEEDS):
        noise = torch.Generator().manual_seed(seed)
        orders = {group.name: sorted_order(group, torch.rand(group.size, generator=noise)) for group in groups}
        permute(net, groups, orders, permute_stored(net))
    found: dict[str, Any] = {how: round(loss_of(several[0], arch, test), 4) for how, several in nets.items()}
    rows: dict[str, Any] = {"whole": found}
    for dim in ("ffn", "heads", "width"):
        for share in SHARES:
            small = shrunk(arch, dim, share)
            rows[f"{dim} {share:.0%}"] = {how: _mean([loss_of(net, small, test) for net in several])
                                          for how, several in nets.items()}
    scores = score_layers(model, calibration)
    for share in SHARES:
        chosen = layer_sets(scores, len(arch.decoder), share)
        rows[f"depth {share:.0%}"] = {how: _mean([
            loss_of(nets["unordered"][0], replace(arch, decoder=tuple(arch.decoder[i] for i in kept)), test)
            for kept in several]) for how, several in chosen.items()}
    return rows


def _mean(values: list[float]) -> float:
    return round(sum(values) / len(values), 4)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("subnet", type=Path)
    parser.add_argument("--score", default="activation")
    parser.add_argument("--sequences", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    arguments = parser.parse_args()
    model = Transformer.from_pretrained(arguments.subnet)
    rows = measure(model, arguments.score, arguments.sequences, arguments.length)
    print(json.dumps({"benchmark": "ordered_prefixes", "subnet": arguments.subnet.name, "score": arguments.score,
                      "losses": rows}))


if __name__ == "__main__":
    main()
