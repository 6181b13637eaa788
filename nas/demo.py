"""Everything that exists, end to end on the smallest space, in a minute or two: `make demo`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console

from nas.run_dir import RunDir, write_text
from nas.search.results import Entry, front
from nas.search_command import Cluster, search
from nas.train import load_supernet, prepare
from nas.train_command import train
from search_spaces import Architecture
from supernet import Supernet, Transformer, extract
from supernet.checkpoint import save_tensors
from supernet.writing import whole

SPACE, TASK = "lm-tiny", "lm"
LIMIT = 50
"""Validation windows an architecture is judged by."""


def main(folder: Path = Path("runs/demo"), steps: int = 400, trials: int = 60) -> Path:
    """Run the demo and give the folder of the extracted model. A demo that was broken off goes on."""
    run = _trained(str(folder), steps)
    prepared = prepare(run)
    net, space = load_supernet(run, prepared.space), prepared.space
    print(f"1. space {space.name}: {space.size():,} architectures from {len(space.genes)} genes")
    stored = sum(tensor.numel() for tensor in net.parameters())
    print(f"2. supernet: {stored:,} shared weights hold them all, trained in {run.path}")

    print("3. search: loss against parameters")
    known = (run.path / "search.yaml").is_file()
    settings = {} if known else {"trials": trials, "limit": LIMIT}
    found = search(str(folder), settings, None, False, Cluster(), Console(highlight=False))
    if not found.finished:
        raise KeyboardInterrupt
    Console(highlight=False).print(found.table())

    arch = _middle(front(found.entries, found.search.objectives))
    model = extract(net, arch)
    difference = _difference(net, model, space.vocab_size, space.context)
    print(f"4. extracted {arch.key[:12]}: largest difference to the supernet's logits {difference:g}")

    subnet = save(model, arch, run.path / "subnets" / arch.key)
    print(f"5. wrote {subnet}/architecture.json and model.safetensors")
    print(f"   look at it with: nas show {subnet}")
    return subnet


def _middle(entries: Sequence[Entry]) -> Architecture:
    return entries[len(entries) // 2].arch


def _trained(name: str, steps: int) -> RunDir:
    """The demo's run, started or resumed until it is trained."""
    known = RunDir(name).config_path.is_file()
    settings = [] if known else [f"steps={steps}", "batch_size=8", "lr=0.002", "dropout=0"]
    given = {"space": None, "task": None, "run": None} if known else {"space": SPACE, "task": TASK, "run": name}
    if not train(**given, data=[], settings=settings, resume=name if known else None, workers=1, address="local",
                 console=Console(highlight=False)):
        raise KeyboardInterrupt
    return RunDir.open(name)


def _difference(net: Supernet, model: Transformer, vocab_size: int, length: int) -> float:
    """The largest difference between the logits of both on random tokens."""
    tokens = torch.randint(vocab_size, (4, length), generator=torch.Generator().manual_seed(0))
    tokens = tokens.to(next(net.parameters()).device)
    with torch.no_grad():
        return float((net(model.arch, tokens) - model(tokens)).abs().max())


def save(model: Transformer, arch: Architecture, folder: Path) -> Path:
    """Write a model and its architecture; each file whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    with whole(folder / "model.safetensors") as temporary:
        save_tensors(model.state_dict(), temporary)
    write_text(folder / "architecture.json", arch.to_json() + "\n")
    return folder


if __name__ == "__main__":
    main()
