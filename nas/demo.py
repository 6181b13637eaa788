"""Everything that exists, end to end on the smallest space, in seconds: `make demo`."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file

from nas.costs import count
from search_spaces import Architecture, load_space
from supernet import Supernet, Transformer, extract

SPACE = "lm-tiny"
SAMPLES = 5
SEQ_LEN = 32


def main(run: Path = Path("runs/demo")) -> Path:
    """Run the demo and give the folder of the extracted model."""
    space = load_space(SPACE)
    print(f"1. space {space.name}: {space.size():,} architectures from {len(space.genes)} genes")

    net = Supernet(space, seed=0).eval()
    stored = sum(tensor.numel() for tensor in net.parameters())
    print(f"2. supernet: {stored:,} shared weights hold them all (untrained: training is not part of this demo yet)")

    rng = random.Random(0)  # noqa: S311
    archs = [space.smallest(), *(space.sample(rng) for _ in range(SAMPLES)), space.largest()]
    print(f"3. {len(archs)} architectures, costs of {SEQ_LEN} tokens:")
    for arch in archs:
        cost = count(arch, SEQ_LEN)
        print(f"   {arch.key[:12]}  width {arch.width}, layers {arch.depth}, {cost.params:>8,} params, "
              f"{cost.macs:>10,} MACs")

    arch = archs[1]
    model = extract(net, arch)
    difference = _difference(net, model, space.vocab_size)
    print(f"4. extracted {arch.key[:12]}: largest difference to the supernet's logits {difference:g}")

    folder = save(model, arch, run / "subnets" / arch.key)
    print(f"5. wrote {folder}/architecture.json and model.safetensors")
    print(f"   look at it with: nas show {folder}")
    return folder


def _difference(net: Supernet, model: Transformer, vocab_size: int) -> float:
    """The largest difference between the logits of both on random tokens."""
    tokens = torch.randint(vocab_size, (4, SEQ_LEN), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return float((net(model.arch, tokens) - model(tokens)).abs().max())


def save(model: Transformer, arch: Architecture, folder: Path) -> Path:
    """Write a model and its architecture; each file whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    _write(folder / "model.safetensors", lambda path: save_file(weights, path, {"schema_version": "1"}))
    _write(folder / "architecture.json", lambda path: path.write_text(arch.to_json() + "\n", "utf-8"))
    return folder


def _write(path: Path, write: Callable[[Path], object]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
