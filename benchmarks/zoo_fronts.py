"""Which kinds of blocks are on the front of a search, and at which cost.

    nas train --space zoo-lm --task lm --run zoo-lm --set steps=800 --set batch_size=8
    nas profile cpu --space runs/zoo-lm --budget 20m --out runs/zoo-lm-cpu
    nas search zoo-lm --device runs/zoo-lm-cpu --trials 100 --limit 32
    python benchmarks/zoo_fronts.py zoo-lm [--note TEXT] [--results benchmarks/results]

The same for zoo-encoder with `--task classification`. Prints one JSON line: for the first quality and cost of the
search, every kind with the number of architectures on the front and evaluated, and the range of the cost on the front.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

import _results

from nas.core.run_dir import RunDir
from nas.stages.report.collect import collect
from nas.stages.report.document import rounded
from nas.stages.report.front_kinds import front_kinds


def main() -> None:
    """Read, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run")
    parser.add_argument("--note", default="", help="conditions of the measurement, for the results")
    _results.add_option(parser)
    arguments = parser.parse_args()
    report = collect(RunDir.open(arguments.run))
    if report.searched is None:
        parser.error(f"{arguments.run} has no search; run nas search {arguments.run}")
    quality, cost = report.searched.shown
    kinds = front_kinds(report.searched.points, report.searched.front(quality, cost), quality, cost)
    print(json.dumps({"benchmark": "zoo_fronts", "space": report.space, "quality": quality.name, "cost": cost.label,
                      "kinds": rounded([asdict(row) for row in kinds])}))
    rows = ({"space": report.space, "quality": quality.name, "cost": cost.kind, **rounded(asdict(row)),
             "note": arguments.note} for row in kinds)
    _results.append(arguments.results, "zoo_fronts", rows)


if __name__ == "__main__":
    main()
