"""What a supernet of a tiny space is worth: its inherited losses against models trained to the end.

    python benchmarks/inherited_ranking.py benchmarks/spaces/rank-one.yaml --text FILE \\
        [--set strategy=turns --set steps=16000 ...] [--results benchmarks/results]

Trains a supernet and appends the inherited losses of all architectures of the benchmark to
`inherited-losses-SPACE.csv`; a training that has its rows there is not repeated. Then compares them with the truths
known so far, `ranking-truth-SPACE.csv` (`benchmarks/ranking_truth.py`), and prints one JSON line: the mean gap
(inherited - alone, in nats), the slope of inherited over trained losses, Kendall's tau with its interval over all and
in the band of equal cost beside every baseline, the ceiling that the noise of seeds allows, and the cost in trainings
of the largest architecture. --again compares all stored trainings of the space and trains nothing: run it when there
are more truths.
"""

from __future__ import annotations

import argparse
import json
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
TRAINING = ["settings", "seed"]
"""The columns that identify a training run of a space."""


def train(prepared: Prepared, recipe: Recipe) -> tuple[Supernet, float]:
    """A trained supernet, and its cost in trainings of the largest architecture."""
    space, macs = prepared.space, 0.0
    strategy = make_strategy(recipe.strategy, space, recipe.seed, recipe.n_random, recipe.steps)
    trainer = Trainer(Supernet(space, seed=recipe.seed), strategy, recipe, prepared.train)
    while not trainer.finished:
        macs += sum(count(arch, space.context).macs for arch in strategy.draw(trainer.progress.step))
        trainer.step()
    return trainer.model.eval(), macs / (PLAIN.steps * count(space.largest(), space.context).macs)  # type: ignore[return-value]


def inherited(prepared: Prepared, settings: list[str]) -> pd.DataFrame:
    """Train a supernet: a row for each architecture of the benchmark."""
    recipe = make_recipe({**PLAIN.model_dump(), **DEFAULTS, **dict(setting.split("=", 1) for setting in settings)})
    begun = time.process_time()
    net, cost = train(prepared, recipe)
    about = {"settings": " ".join(settings), "seed": recipe.seed, "steps": recipe.steps, "cost": round(cost, 2),
             "cpu_s": round(time.process_time() - begun)}
    task = tasks.get("lm")
    return pd.DataFrame([{**about, "key": candidate.arch.key, "group": candidate.group, **costs(prepared, candidate),
                          "inherited_loss": round(score(net, candidate.arch, task, prepared, recipe)["loss"], 5)}
                         for candidate in architectures(prepared)])


def with_truths(losses: pd.DataFrame, truths: pd.DataFrame) -> pd.DataFrame:
    """Add the losses of trained models; architectures without one are left out."""
    truths = truths[truths["steps"] == PLAIN.steps].drop_duplicates(["key", "seed"])
    columns = {name: truths[truths["seed"] == seed].set_index("key")["loss"]
               for name, seed in {"trained_loss": SEED, "repeat_loss": SEED + 1}.items()}
    joined = losses.assign(**{name: losses["key"].map(column) for name, column in columns.items()})
    return joined[joined["trained_loss"].notna()]


def figures(comparison: Comparison) -> dict[str, Any]:
    taus = {figure.name: [None if value is None else round(value, 3)
                          for value in (figure.tau, figure.low, figure.high)] for figure in comparison.figures}
    return {"n": comparison.n, "tau": taus, "ceiling": comparison.ceiling and round(comparison.ceiling.perfect, 3),
            "better_than": [one.baseline for one in comparison.differences if one.above_zero]}


def compare(space: str, losses: pd.DataFrame) -> dict[str, Any]:
    """The JSON line of a training; `losses` has the truths."""
    report, gaps = assess(losses), losses["inherited_loss"] - losses["trained_loss"]
    return {"benchmark": "inherited_ranking", "space": space,
            **losses.iloc[0][[*TRAINING, "steps", "cost", "cpu_s"]].to_dict(),
            "n": len(losses), "gap": round(float(gaps.mean()), 4), "gap_sd": round(float(gaps.std()), 4),
            "slope": round(float(np.polyfit(losses["trained_loss"], losses["inherited_loss"], 1)[0]), 3),
            "overall": figures(report.overall), "band": figures(report.band),
            "seed_sd": report.noise and round(report.noise.sigma, 4)}


def row(line: dict[str, Any]) -> dict[str, Any]:
    """A row of inherited_ranking.csv."""
    return {**{key: line[key] for key in ("space", *TRAINING, "cost", "n", "gap", "gap_sd", "slope")},
            **{f"{part}_{name}": value for part in ("overall", "band")
               for name, value in {"n": line[part]["n"],
                                   **{name: tau[0] for name, tau in line[part]["tau"].items()},
                                   "low": line[part]["tau"]["inherited_loss"][1],
                                   "high": line[part]["tau"]["inherited_loss"][2],
                                   "ceiling": line[part]["ceiling"],
                                   "better_than": " ".join(line[part]["better_than"])}.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the training")
    parser.add_argument("--again", action="store_true", help="compare all stored training runs; train nothing")
    parser.add_argument("--truths", type=Path, default=ROOT / "benchmarks" / "results")
    add_option(parser)
    options = parser.parse_args()
    prepared = prepare(options.space, options.text)
    space = prepared.space.name
    truths = pd.read_csv(options.truths / f"ranking-truth-{space}.csv")
    stored = (options.results or options.truths) / f"inherited-losses-{space}.csv"
    losses = pd.read_csv(stored, keep_default_na=False) if stored.is_file() else pd.DataFrame(columns=TRAINING)
    seed = make_recipe(dict(setting.split("=", 1) for setting in options.set)).seed
    mine = losses[(losses["settings"] == " ".join(options.set)) & (losses["seed"] == seed)]
    if not options.again and mine.empty:
        losses = mine = inherited(prepared, options.set)
        append(options.results, stored.stem, losses.to_dict("records"))
    for _, one in (losses if options.again else mine).groupby(TRAINING, sort=False):
        line = compare(space, with_truths(one, truths))
        print(json.dumps(line), flush=True)
        append(options.results, "inherited_ranking", [row(line)])


if __name__ == "__main__":
    main()
