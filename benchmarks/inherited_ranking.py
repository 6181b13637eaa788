"""What a supernet of a tiny space is worth: its inherited losses against models trained to the end.

    python benchmarks/inherited_ranking.py benchmarks/spaces/rank-one.yaml --text FILE \\
        [--set strategy=turns --set steps=16000 ...] [--results benchmarks/results]

The truths are `benchmarks/results/ranking-truth-SPACE.csv` (`benchmarks/ranking_truth.py`). Prints one JSON line: the
mean gap (inherited - alone, in nats), the slope of inherited over trained losses, Kendall's tau with its interval over
all and in the band of equal cost beside every baseline, the ceiling that the noise of seeds allows, and the cost in
trainings of the largest architecture.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _ranking import PLAIN, SEED, add_arguments, architectures, costs, prepare
from _results import ROOT, add_option, append

from nas import tasks
from nas.core.config import make_recipe
from nas.core.evaluation import score
from nas.costs import count
from nas.stages.rank.statistics import Comparison, assess
from nas.tasks.base import Prepared
from supernet import Supernet
from supernet.train.recipe import Recipe
from supernet.train.step import Trainer
from supernet.train.strategy import make_strategy

DEFAULTS: dict[str, Any] = {"strategy": "turns", "steps": 4 * PLAIN.steps}


def train(prepared: Prepared, recipe: Recipe) -> tuple[Supernet, float]:
    """A trained supernet, and the multiply-adds of its passes per token."""
    space, macs = prepared.space, 0.0
    strategy = make_strategy(recipe.strategy, space, recipe.seed, recipe.n_random, recipe.steps)
    trainer = Trainer(Supernet(space, seed=recipe.seed), strategy, recipe, prepared.train)
    while not trainer.finished:
        macs += sum(count(arch, space.context).macs for arch in strategy.draw(trainer.progress.step))
        trainer.step()
    return trainer.model.eval(), macs  # type: ignore[return-value]


def table(prepared: Prepared, net: Supernet, recipe: Recipe, truths: pd.DataFrame) -> pd.DataFrame:
    """A row for each architecture that has a truth."""
    known = {(row.key, row.seed): row.loss for row in truths.itertuples()}
    rows = []
    for candidate in architectures(prepared):
        if (candidate.arch.key, SEED) not in known:
            continue
        loss = score(net, candidate.arch, tasks.get("lm"), prepared, recipe)["loss"]
        rows.append({"key": candidate.arch.key, "group": candidate.group, **costs(prepared, candidate),
                     "inherited_loss": loss,
                     "trained_loss": known[candidate.arch.key, SEED],
                     "repeat_loss": known.get((candidate.arch.key, SEED + 1), math.nan)})
    return pd.DataFrame(rows)


def figures(comparison: Comparison) -> dict[str, Any]:
    taus = {figure.name: [None if value is None else round(value, 3)
                          for value in (figure.tau, figure.low, figure.high)] for figure in comparison.figures}
    return {"n": comparison.n, "tau": taus, "ceiling": comparison.ceiling and round(comparison.ceiling.perfect, 3),
            "better_than": [one.baseline for one in comparison.differences if one.above_zero]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the training")
    parser.add_argument("--truths", type=Path, default=ROOT / "benchmarks" / "results")
    add_option(parser)
    options = parser.parse_args()
    prepared = prepare(options.space, options.text)
    space = prepared.space
    truths = pd.read_csv(options.truths / f"ranking-truth-{space.name}.csv")
    truths = truths[truths["steps"] == PLAIN.steps]
    settings = {**PLAIN.model_dump(), **DEFAULTS, **dict(setting.split("=", 1) for setting in options.set)}
    recipe, begun = make_recipe(settings), time.process_time()
    net, macs = train(prepared, recipe)
    cpu_s = time.process_time() - begun
    losses = table(prepared, net, recipe, truths)
    report, gaps = assess(losses), losses["inherited_loss"] - losses["trained_loss"]
    line = {"benchmark": "inherited_ranking", "space": space.name, "settings": " ".join(options.set),
            "seed": recipe.seed, "n": len(losses), "gap": round(float(gaps.mean()), 4),
            "gap_sd": round(float(gaps.std()), 4),
            "slope": round(float(np.polyfit(losses["trained_loss"], losses["inherited_loss"], 1)[0]), 3),
            "cost": round(macs / (PLAIN.steps * count(space.largest(), space.context).macs), 2),
            "cpu_s": round(cpu_s), "overall": figures(report.overall), "band": figures(report.band),
            "seed_sd": report.noise and round(report.noise.sigma, 4)}
    print(json.dumps(line))
    append(options.results, "inherited_ranking", [{
        **{key: line[key] for key in ("space", "settings", "seed", "n", "gap", "gap_sd", "slope", "cost")},
        **{f"{part}_{name}": (value[0] if isinstance(value, list) else value)
           for part in ("overall", "band")
           for name, value in {**line[part]["tau"], "ceiling": line[part]["ceiling"]}.items()}}])


if __name__ == "__main__":
    main()
