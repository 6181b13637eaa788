"""A subnet of a run, small enough to be compressed many times."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from nas import tasks
from nas.core.costs import count
from nas.core.evaluation import load_supernet, prepare, score
from nas.core.run_dir import RunDir
from nas.core.subnet import HistoryStep, Subnet, SubnetFacts, write_subnet
from supernet import extract
from tests.nas.stages.search.made_up import write_profile


@pytest.fixture(scope="session")
def one_subnet(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the finished run `a` and its largest subnet; to be copied, never changed."""
    folder, before = tmp_path_factory.mktemp("subnet"), Path.cwd()
    shutil.copytree(trained, folder, dirs_exist_ok=True)
    os.chdir(folder)
    try:
        run = RunDir.open("a")
        prepared, config = prepare(run), run.config()
        write_profile(prepared.space, "one")
        arch = prepared.space.largest()
        model = extract(load_supernet(run, prepared.space), arch)
        metrics = score(model, arch, tasks.get("lm"), prepared, config.training, full=True)
        cost = count(arch, arch.context)
        costs = {"params": cost.params, "macs": cost.macs, "weight_bytes": cost.weight_bytes, "latency:one": 1.0,
                 "latency:gone": 2.0}
        facts = SubnetFacts(key=arch.key, task="lm", run="runs/a", data=config.data, costs=costs,
                      made=(HistoryStep(stage="extract", metrics=metrics),))
        write_subnet(Path("runs/a/subnets/big"), model, prepared.tokenizer, facts)
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def subnet(here: Path, one_subnet: Path) -> Subnet:
    """The subnet `a/big` in the working directory."""
    shutil.copytree(one_subnet / "runs", "runs")
    return Subnet.open("a/big")
