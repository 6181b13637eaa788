"""Fills a trained run with all that the stages after it leave behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nas import cli
from nas.core import evaluation as train
from nas.core.prediction_quality import Quality
from nas.core.run_dir import RunDir, write_json, write_text
from nas.core.subnet import HistoryStep, Measured, Subnet, write_subnet
from nas.stages.profile.check import ProfileCheck
from nas.stages.rank.statistics import assess
from nas.stages.retrain.config import RetrainConfig
from nas.stages.retrain.job import SETTINGS
from supernet.train.recipe import Recipe
from tests.nas.stages.rank.tables import made_table
from tests.nas.stages.search.made_up import write_profile

ODD = "<b>two & $x$"
"""A device whose name could be taken for markup or mathematics."""


def fill(name: str, trials: int = 40) -> None:
    """Search for two devices, check a profile, extract, retrain and measure one subnet, and rank; in a few seconds."""
    run = RunDir.open(name)
    space = train.prepare(run).space
    write_profile(space, "one")
    write_profile(space, "two", seed=1, interpolated=("ffn",))
    Path("runs/profiles/two").rename("runs/profiles/b-two-x")  # as a device of that name is kept
    assert cli.main(["search", name, "--device", "one", "--device", ODD, "--trials", str(trials), "--limit", "4",
                     "--sampler", "random"]) == 0
    assert cli.main(["extract", name, "--knee"]) == 0
    first = Subnet.open(str(next((run.path / "subnets").glob("*/architecture.json")).parent))
    _retrain(first)
    _check(Path("runs/profiles/one"), first.arch.key)
    _rank(run.path / "rank")


def _retrain(subnet: Subnet) -> None:
    """Another folder of the same model, said to be better and measured."""
    metrics = {"loss": 1.25, "perplexity": 3.5}
    made = HistoryStep(stage="retrain", settings={"init": "inherit", "steps": 9}, metrics=metrics)
    measured = {"latency:one": Measured(predicted_ms=2.0, measured_ms=2.1)}
    facts = subnet.facts.then(made).model_copy(update={"measured": measured, "exports": {"onnx": {}, "torch-export": {},
                                                                                  "huggingface": {}}})
    name = subnet.path.name
    write_subnet(subnet.path.with_name(f"{name}-retrained"), subnet.model(), subnet.tokenizer(), facts)
    folder = subnet.path.parent.parent / "retraining" / f"{name}-0123456789ab"
    folder.mkdir(parents=True)
    config = RetrainConfig(subnet=name, out=f"subnets/{name}-retrained", training=Recipe(evaluate_limit=3))
    write_text(folder / SETTINGS, config.model_dump_json())
    rows = "".join(f"{step},train/loss_labels,{5 - step / 500}\n{step},train/loss_logits,0.1\n"
                   for step in range(1, 1000))
    write_text(folder / "metrics.csv", f"step,metric,value\n{rows}1000,valid/loss,nan\n")


def _check(folder: Path, key: str) -> None:
    good = Quality(0.02, 1.0, 0.97, None)
    found = ProfileCheck(phase="prefill", n=2, overlap=0, slowdown=1.05, noise_floor=0.01, predicted=good,
                         as_timed=good, naive_is="naive table", naive=replace(good, mape=0.2),
                         macs=replace(good, mape=0.3), inside_interval=1.0)
    write_text(folder / "check-prefill.csv", f"key,measured_ms,predicted_ms\n{key},2.5,2.4\n{key},1.0,1.2\n")
    write_json(folder / "check-prefill.json", found.to_dict())


def _rank(folder: Path) -> None:
    table = made_table(12)
    table.insert(0, "key", [f"{i:064x}" for i in range(12)])
    folder.mkdir()
    write_text(folder / "ranking.csv", table.to_csv(index=False))
    write_json(folder / "ranking.json", {"schema_version": 1, **assess(table, resamples=50).to_dict()})
