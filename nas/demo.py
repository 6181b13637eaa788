"""Everything that exists, end to end on the smallest space, in a minute or two: `make demo`."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from nas.extract import extract
from nas.run_dir import RunDir
from nas.search.picking import Choice
from nas.search_command import Cluster, search
from nas.train import load_supernet, prepare
from nas.train_command import train
from nas.use import Drawing, generate

SPACE, TASK = "lm-tiny", "lm"
LIMIT = 50
"""Validation windows an architecture is judged by."""
PROMPT = "The function returns"


def main(folder: Path = Path("runs/demo"), steps: int = 400, trials: int = 60) -> Path:
    """Run the demo and give the folder of the extracted model. A demo that was broken off goes on."""
    console = Console(highlight=False)
    run = _trained(str(folder), steps, console)
    space = prepare(run).space
    print(f"1. space {space.name}: {space.size():,} architectures from {len(space.genes)} genes")
    stored = sum(tensor.numel() for tensor in load_supernet(run, space).parameters())
    print(f"2. supernet: {stored:,} shared weights hold them all, trained in {run.path}")

    print("3. search: loss against parameters")
    known = (run.path / "search.yaml").is_file()
    settings = {} if known else {"trials": trials, "limit": LIMIT}
    found = search(str(folder), settings, None, False, Cluster(), console)
    if not found.finished:
        raise KeyboardInterrupt
    console.print(found.table())

    print("4. extract: where the front bends most, as a plain model with the supernet's outputs")
    extracted = extract(str(folder), Choice(knee=True), console)
    console.print(extracted.table())

    subnet = extracted.subnets[0].path
    print("5. use it: what so small a model writes after so short a training")
    print(PROMPT + generate(str(subnet), PROMPT, 40, Drawing(seed=0)).text)
    print(f"   look at it with: nas show {subnet}")
    return subnet


def _trained(name: str, steps: int, console: Console) -> RunDir:
    """The demo's run, started or resumed until it is trained."""
    known = RunDir(name).config_path.is_file()
    settings = [] if known else [f"steps={steps}", "batch_size=8", "lr=0.002", "dropout=0"]
    given = {"space": None, "task": None, "run": None} if known else {"space": SPACE, "task": TASK, "run": name}
    if not train(**given, data=[], settings=settings, resume=name if known else None, workers=1, address="local",
                 console=console):
        raise KeyboardInterrupt
    return RunDir.open(name)


if __name__ == "__main__":
    main()
