"""What a supernet's weights are worth: the smallest, a median and the largest architecture against plain models.

    python benchmarks/inherited_quality.py RUN [--results benchmarks/results]

For a finished run of `nas train`. The plain models are trained from scratch with the run's settings on as many tokens;
their results stay in the run's folder. Prints one JSON line: validation metrics of each, and the curve of the
supernet's training.
"""

from __future__ import annotations

import argparse
import json
import random

import pandas as pd
import torch
from _results import add_option, append

from nas import tasks
from nas.core.evaluation import load_supernet, prepare, score
from nas.core.run_dir import RunDir
from nas.costs import count
from nas.stages.rank.scratch import train_plain
from search_spaces import Architecture, SearchSpace

SAMPLES = 101


def median_architecture(space: SearchSpace) -> Architecture:
    """The one of median cost among seeded samples."""
    drawn = [space.sample(random.Random(seed)) for seed in range(SAMPLES)]
    return sorted(drawn, key=lambda arch: count(arch, space.context).macs)[SAMPLES // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    add_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    run = RunDir.open(options.run)
    config, prepared = run.config(), prepare(run)
    task, space = tasks.get(config.task), prepared.space
    net = load_supernet(run, space)
    recipe = config.training.model_copy(update={"evaluate_every": 0, "patience": 0, "layerdrop": 0.0})
    archs = {"smallest": space.smallest(), "median": median_architecture(space), "largest": space.largest()}
    about = {"run": run.name, "space": space.name}
    quality, curves = [], []
    line = {"benchmark": "inherited_quality", "run": run.name, "space": space.name, "steps": recipe.steps}
    for name, arch in archs.items():
        plain = train_plain(arch, recipe, run.path / "plain" / f"{name}-{arch.key[:16]}", task, prepared)
        qualities = {"inherited": score(net, arch, task, prepared, recipe), "plain": plain}
        line[name] = {"params": count(arch, space.context).params,
                      **{kind: {metric: round(value, 4) for metric, value in metrics.items()}
                         for kind, metrics in qualities.items()}}
        quality.append({**about, "steps": recipe.steps, "architecture": name, "params": line[name]["params"],
                        "inherited_perplexity": line[name]["inherited"].get("perplexity", ""),
                        "alone_perplexity": line[name]["plain"].get("perplexity", "")})
    rows = pd.read_csv(run.path / "metrics.csv")
    for end in ("largest", "smallest"):
        of_end = rows[rows["metric"] == f"valid/{end}/loss"]
        line[f"curve_{end}"] = {int(step): round(loss, 3) for step, loss in zip(of_end["step"], of_end["value"])}
        curves += [{**about, "architecture": end, "step": step, "loss": loss}
                   for step, loss in line[f"curve_{end}"].items()]
    print(json.dumps(line))
    append(options.results, "inherited_quality", quality)
    append(options.results, "supernet_curve", curves)


if __name__ == "__main__":
    main()
