"""A fine-tuned encoder at a fraction of its cost: the pick of a search beside baselines at equal cost and equal tokens.

    python benchmarks/shrink_pretrained.py --model minilm --data sst2 --work FOLDER [--steps 1200] [--budgets 1/4]
        [--seeds 0] [--methods search,layers] [--device cpu-onnxruntime] [--results benchmarks/results]

--model is a Hugging Face folder of an encoder, --data a folder with train.tsv and dev.tsv (columns sentence, label).
Part of train.tsv is held out for the search; dev.tsv is read only for the reported figures. The whole model is
fine-tuned and teaches everything that is made from it (its logits). Methods:

- search: a supernet around the fine-tuned model, a search within the largest budget, and the best of each budget. The
  supernet takes a share of the steps (--supernet-share), retraining the rest. Retraining starts from the slices of the
  fine-tuned model (--init model) or of the supernet (inherit). The supernet serves all budgets and seeds, but every
  pick is charged with all of its steps.
- layers, uniform, importance: nas prune-to.
- scratch: the largest of the space encoder-small, from scratch; it is smaller than every budget of MiniLM.

A budget is a share of the whole model's multiply-adds, or of its latency on a --device, which is profiled first (leave
the machine alone meanwhile). A method that cannot meet a budget has no row. Every training and pick is kept in --work:
rerun to resume. Prints one JSON line for each row. Differences are to the whole model on the same examples, with
standard errors.
"""

from __future__ import annotations

import argparse
import json
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import _results
import torch
from _shrinking import MODELS, Experiment, compare

from nas.costs import count
from search_spaces import InputError

METHODS = ("search", "layers", "uniform", "importance", "scratch")


def arguments() -> argparse.Namespace:
    """Everything that can be chosen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--work", type=Path, required=True, metavar="FOLDER", help="where everything is kept")
    parser.add_argument("--steps", type=int, default=1200, help="steps of every training")
    parser.add_argument("--whole-steps", type=int, help="steps of fine-tuning the whole model; default: --steps")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--supernet-share", type=float, default=0.125, help="share of the steps that the supernet "
                        "takes; the rest is for the pick")
    parser.add_argument("--init", choices=("model", "inherit"), default="model", help="weights that picks start from")
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--least", type=float, default=0.06, help="smallest share of a dimension in the search space; "
                        "global importance keeps 1 head of 12")
    parser.add_argument("--choices", type=int, default=6, help="values of a dimension in the search space")
    parser.add_argument("--trials", type=int, default=120, help="architectures that the search evaluates")
    parser.add_argument("--budgets", default="1/4,1/8,1/2", help="shares of the cost of the whole model")
    parser.add_argument("--seeds", default="0", help="seeds of training, such as 0,1,2")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--context", type=int, default=64, help="longest sequence; costs are those of this length")
    parser.add_argument("--precision", default="auto", help="of trainings: auto, fp32 or bf16; reports are in fp32")
    parser.add_argument("--device", help="the device whose latency is the budget, such as cpu-onnxruntime")
    parser.add_argument("--profile-budget", default="4m", help="time for its profile")
    _results.add_option(parser)
    return parser.parse_args()


def row_of(experiment: Experiment, name: str, budget: str, method: str, seed: int, steps: int) -> dict[str, Any]:
    """A row: cost and quality of a model, and how it differs from the whole one."""
    model, mine = experiment.opened(name), experiment.losses(name)
    cost = count(model.arch, experiment.context)
    latency = experiment.latency(name)
    return {"data": experiment.data.name, "model": experiment.model.name, "budget": budget, "method": method,
            "seed": seed, "accuracy": round(mine.accuracy, 4), "loss": round(mine.loss, 4), "macs": cost.macs,
            "params": cost.params, "latency_ms": latency and round(latency, 3),
            **compare(mine, experiment.losses("whole")), "steps": steps,
            "batch_size": experiment.options.batch_size, "cpu_seconds": round(experiment.spent(name))}


def main() -> None:
    """Run what is missing, and print and store a row for each model as soon as it is trained."""
    options = arguments()
    torch.set_num_threads(1)
    results = options.results.resolve() if options.results else None
    experiment = Experiment(options.model.resolve(), options.data.resolve(), options)
    options.work.mkdir(parents=True, exist_ok=True)
    os.chdir(options.work)

    def report(name: str, budget: str, method: str, seed: int, steps: int) -> None:
        written = Path(MODELS) / name / "row.json"
        row = row_of(experiment, name, budget, method, seed, steps)
        print(json.dumps(row), flush=True)
        if not written.exists():
            _results.append(results, "shrink_pretrained", [row])
            written.write_text(json.dumps(row))

    options.whole_steps = options.whole_steps or options.steps
    experiment.whole()
    experiment.space()
    report("whole", "1", "whole", 0, options.whole_steps)
    for seed in map(int, options.seeds.split(",")):
        for budget in options.budgets.split(","):
            for method in options.methods.split(","):
                try:
                    name, steps = experiment.smaller(method, Fraction(budget), seed)
                except InputError as error:
                    print(json.dumps({"budget": budget, "method": method, "refused": str(error)}), flush=True)
                else:
                    report(name, budget, method, seed, steps)


if __name__ == "__main__":
    main()
