"""Train architectures of a tiny space to the end: the truth that supernets are compared with.

    python benchmarks/ranking_truth.py benchmarks/spaces/rank-one.yaml --text FILE --results benchmarks/results

Appends a row for each training to `ranking-truth-SPACE.csv`; what has a row is not trained again, so the command
resumes. 60 architectures cover the range of costs, 40 have nearly equal cost; a third of them is trained with a
second seed. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from pathlib import Path

from _ranking import PLAIN, SEED, add_arguments, architectures, costs, prepare
from _results import add_option, append

from nas import tasks
from nas.core.evaluation import score
from nas.stages.rank.selection import Candidate
from nas.tasks.base import Prepared
from supernet import Transformer
from supernet.train.step import Trainer
from supernet.train.strategy import Fixed


def trainings(prepared: Prepared) -> list[tuple[Candidate, int]]:
    """Architecture and seed; groups and seeds alternate, so that a part of the list is a fair sample."""
    chosen = architectures(prepared)
    groups = [[(one, SEED) for one in chosen if one.group == group] for group in ("spread", "band")]
    repeated = [(one, SEED + 1) for one in chosen[::3]]
    placed = [((i + 0.5) / len(part), training) for part in (*groups, repeated) for i, training in enumerate(part)]
    return [training for _, training in sorted(placed, key=lambda item: item[0])]


def finished(path: Path) -> set[tuple[str, int, int]]:
    if not path.is_file():
        return set()
    with path.open(encoding="utf-8", newline="") as file:
        return {(row["key"], int(row["seed"]), int(row["steps"])) for row in csv.DictReader(file)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--steps", type=int, default=PLAIN.steps)
    parser.add_argument("--part", default="0/1", help="this process's share of the training runs, such as 0/2 and 1/2")
    add_option(parser)
    options = parser.parse_args()
    prepared = prepare(options.space, options.text)
    name = f"ranking-truth-{prepared.space.name}"
    done = finished(options.results / f"{name}.csv") if options.results else set()
    part, parts = map(int, options.part.split("/"))
    count = 0
    for i, (candidate, seed) in enumerate(trainings(prepared)):
        if i % parts != part or (candidate.arch.key, seed, options.steps) in done:
            continue
        recipe, begun = PLAIN.model_copy(update={"seed": seed, "steps": options.steps}), time.process_time()
        trainer = Trainer(Transformer(candidate.arch, seed=seed), Fixed(candidate.arch), recipe, prepared.train)
        while not trainer.finished:
            trainer.step()
        loss = score(trainer.model.eval(), candidate.arch, tasks.get("lm"), prepared, recipe)["loss"]
        append(options.results, name, [{
            "space": prepared.space.name, "data": prepared.fingerprint[:16], "key": candidate.arch.key,
            "group": candidate.group,
            "seed": seed, "steps": options.steps, **costs(prepared, candidate), "loss": round(loss, 5),
            "cpu_s": round(time.process_time() - begun, 1)}])
        count += 1
    print(json.dumps({"benchmark": "ranking_truth", "space": prepared.space.name, "trained": count,
                      "before": len(done)}))


if __name__ == "__main__":
    main()
