"""Train and search the zoo spaces on the bundled data: which kinds of blocks are on the front, and at which latency.

    python benchmarks/zoo_fronts.py [--spaces zoo-lm zoo-encoder] [--steps 1000] [--device cortex-x3-estimated]
    python benchmarks/zoo_fronts.py --device cpu --budget 20m --results benchmarks/results

For each space the run `SPACE-DEVICE` is trained with the default recipe, priced on the device and searched; the same
command resumes a run that was stopped. Prices of a device that is not `-estimated` are measured, so the machine has to
be quiet. Prints a table and one JSON line per space: every kind with the number of architectures on the front and
evaluated, the range of latencies on the front in ms, and the best loss there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

import _results

from nas import api
from nas.core.run_dir import RunDir
from nas.stages.report.collect import collect
from nas.stages.report.document import rounded
from nas.stages.report.front_kinds import front_kinds
from nas.stages.report.shown import FrontKind

TASKS = {"zoo-lm": "lm", "zoo-encoder": "classification"}


def main() -> None:
    """Train, search, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spaces", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--steps", type=int, default=1000, help="optimiser steps of the supernet")
    parser.add_argument("--device", default="cortex-x3-estimated", help="profiled by this command")
    parser.add_argument("--budget", default="3m", help="time of the profile")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--limit", type=int, default=64, help="validation examples per evaluation")
    _results.add_option(parser)
    arguments = parser.parse_args()
    if arguments.results is not None and _results.commit().endswith("-dirty"):
        parser.error("--results needs a clean working tree, so that the commit of the rows is that of the code")
    rows = []
    for space in arguments.spaces:
        run = f"{space}-{arguments.device}"
        searched(run, space, arguments)
        settings = {"space": space, "device": arguments.device, "steps": arguments.steps, "trials": arguments.trials}
        quality, kinds = on_front(run)
        show(settings, quality, kinds)
        rows += [{**settings, "quality": quality, **rounded(asdict(row))} for row in kinds]
    _results.append(arguments.results, "zoo_fronts", rows)


def searched(run: str, space: str, arguments: argparse.Namespace) -> None:
    """Train, profile and search, or resume what was stopped."""
    api.train(space, TASKS[space], run, training={"steps": arguments.steps})
    folder = RunDir(run).path / "profile"
    if not (folder / "table.csv").exists():
        api.profile(arguments.device, RunDir(run), arguments.budget, out=folder)
    api.search(run, {"devices": [str(folder)], "trials": arguments.trials, "limit": arguments.limit})


def on_front(run: str) -> tuple[str, list[FrontKind]]:
    """The name of the quality, and the kinds of all evaluated architectures."""
    report = collect(RunDir.open(run))
    assert report.searched is not None
    quality, cost = report.searched.shown
    return quality.name, front_kinds(report.searched.points, report.searched.front(quality, cost), quality, cost)


def show(settings: dict[str, object], quality: str, kinds: Sequence[FrontKind]) -> None:
    """A table of the kinds on the front, and everything as JSON."""
    print(f"{settings}: kinds on the front, ms, best {quality}")
    for row in kinds:
        if row.on_front:
            print(f"  {row.role:10}{row.kind:26}{row.on_front:3} of {row.evaluated:3}"
                  f"{row.least_cost:10.4f} to {row.most_cost:.4f}{row.best_quality:10.4f}")
    print(json.dumps({"benchmark": "zoo_fronts", **settings, "quality": quality,
                      "kinds": rounded([asdict(row) for row in kinds])}))


if __name__ == "__main__":
    main()
