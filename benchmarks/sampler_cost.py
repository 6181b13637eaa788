"""CPU time that `PredictorSampler` takes to propose: 200 choices of ten values each, two objectives.

    python benchmarks/sampler_cost.py [--choices 200] [--values 10] [--trials 100]

Prints one JSON line: mean and worst milliseconds of CPU for one proposal. A batch of proposals is computed at once, so
the worst one is that of a whole batch.
"""

from __future__ import annotations

import argparse
import json
import time

import optuna

from nas.stages.search.samplers import PredictorSampler


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--choices", type=int, default=200)
    parser.add_argument("--values", type=int, default=10)
    parser.add_argument("--trials", type=int, default=100)
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = {f"x{i}": optuna.distributions.CategoricalDistribution(tuple(range(options.values)))
             for i in range(options.choices)}
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=PredictorSampler(seed=0))
    spent = []
    for _ in range(options.trials):
        start = time.process_time()
        trial = study.ask(space)
        spent.append(time.process_time() - start)
        values = list(trial.params.values())
        study.tell(trial, [sum((value - 3) ** 2 for value in values), sum(values)])
    print(json.dumps({"benchmark": "sampler_cost", "choices": options.choices, "values": options.values,
                      "trials": options.trials, "mean_ms": round(1e3 * sum(spent) / len(spent), 1),
                      "worst_ms": round(1e3 * max(spent), 1)}))


if __name__ == "__main__":
    main()
