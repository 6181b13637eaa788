"""What retraining is worth: three subnets, each from scratch, with inherited weights, and with a teacher besides.

    python benchmarks/retraining.py RUN [--steps N] [--only PICK/WAY] [--set KEY=VALUE]...
                                    [--results benchmarks/results]

For a finished run of `nas train`. The picks are the cheapest, the middle and the most expensive of its front, or of
samples if it was not searched; all ways see the same batches. What is trained stays in the run's folder `benchmark`, so
that an interrupted benchmark resumes, and --only can do it in parts. Prints one JSON line: the validation metrics of
every way that is done.
"""

from __future__ import annotations

import argparse
import json
import random
from typing import Any

import torch
from _results import add_option, append

from nas import tasks
from nas.cli._settings import parse_settings
from nas.core.evaluation import load_supernet, prepare, score
from nas.core.fronts import read_front
from nas.core.run_dir import RunDir
from nas.core.subnet import HistoryStep, Subnet, SubnetFacts, write_subnet
from nas.costs import count
from nas.stages.retrain.job import make_job, retrain
from nas.stages.retrain.request import RetrainRequest
from nas.tasks.base import Prepared
from search_spaces import Architecture, InputError, SearchSpace
from supernet import extract

SAMPLES = 101
PLACES = {"small": 0.05, "middle": 0.5, "large": 0.95}
"""Where picks stand among the samples by their multiply-adds; of a front the ends are taken."""
WAYS: dict[str, dict[str, Any]] = {
    "scratch": {"init": "scratch", "teacher": "none"}, "inherit": {"teacher": "none"},
    "distill": {"distill": ("logits", "features")}}


def picks(run: RunDir, space: SearchSpace) -> dict[str, Architecture]:
    try:
        archs, places = [entry.arch for entry in read_front(run)], {"small": 0.0, "middle": 0.5, "large": 1.0}
    except InputError:
        archs, places = [space.sample(random.Random(seed)) for seed in range(SAMPLES)], PLACES
    archs = sorted(archs, key=lambda arch: count(arch, space.context).macs)
    return {name: archs[round(place * (len(archs) - 1))] for name, place in places.items()}


def extracted(run: RunDir, name: str, arch: Architecture, prepared: Prepared) -> Subnet:
    """The pick's folder, written where it is not there yet."""
    folder, config = run.path / "benchmark" / f"{name}-{arch.key[:12]}", run.config()
    if folder.exists():
        return Subnet.open(str(folder))
    model = extract(load_supernet(run, prepared.space), arch)
    metrics = score(model, arch, tasks.get(config.task), prepared, config.training, full=True)
    facts = SubnetFacts(key=arch.key, task=config.task, run=str(run.path), data=config.data, labels=prepared.labels,
                  made=(HistoryStep(stage="extract", metrics=metrics),))
    return write_subnet(folder, model, prepared.tokenizer, facts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--steps", type=int, help="of each training; what nas retrain takes by default")
    parser.add_argument("--only", metavar="PICK/WAY", help=f"{', '.join(PLACES)} / {', '.join(WAYS)}")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a training setting for all")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    add_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    run = RunDir.open(options.run)
    prepared = prepare(run)
    given = parse_settings(options.set, "--set") | ({"steps": str(options.steps)} if options.steps else {})
    rows: list[dict[str, object]] = []
    line: dict[str, object] = {"benchmark": "retraining", "run": run.name, "space": prepared.space.name}
    for pick, arch in picks(run, prepared.space).items():
        subnet = extracted(run, pick, arch, prepared)
        row: dict[str, Any] = {"key": arch.key[:12], "params": count(arch, prepared.space.context).params,
                                    "extracted": rounded(subnet)}
        for way, settings in WAYS.items():
            out = run.path / "benchmark" / "-".join((subnet.path.name, way, *(f"{k}={v}" for k, v in given.items())))
            request = RetrainRequest(subnet=str(subnet.path), training=given, out=str(out), **settings)
            job = make_job(subnet, prepared, request)
            if options.only in (None, f"{pick}/{way}"):
                retrain(job, prepared)
            if (finished := job.find_result()) is not None:
                line["steps"] = job.config.training.steps
                row[way] = rounded(finished)
        line[pick] = row
        if all(way in row for way in WAYS):
            rows.append({"run": run.name, "space": prepared.space.name, "steps": line["steps"], "architecture": pick,
                         "params": row["params"], "extracted_perplexity": perplexity(row["extracted"]),
                         "scratch_perplexity": perplexity(row["scratch"]),
                         "inherited_perplexity": perplexity(row["inherit"]),
                         "distilled_perplexity": perplexity(row["distill"])})
    print(json.dumps(line))
    append(options.results, "retraining", rows)


def perplexity(metrics: dict[str, float | None]) -> float | str:
    value = metrics.get("perplexity")
    return "" if value is None else value


def rounded(subnet: Subnet) -> dict[str, float | None]:
    return {name: value if value is None else round(value, 4) for name, value in subnet.facts.metrics.items()}


if __name__ == "__main__":
    main()
