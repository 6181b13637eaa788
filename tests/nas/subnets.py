"""Subnets of a finished run, written without a search."""

from __future__ import annotations

from pathlib import Path

from nas import tasks
from nas.core.evaluation import load_supernet, prepare, score
from nas.core.run_dir import RunDir
from nas.core.subnet import HistoryStep, Subnet, SubnetFacts, write_subnet
from search_spaces import Architecture
from supernet import extract


def write_extracted(run: str, arch: Architecture | None = None, folder: Path | None = None) -> Subnet:
    """An architecture of a run on its supernet's weights; the smallest of its space by default."""
    opened = RunDir.open(run)
    config, prepared = opened.config(), prepare(opened)
    arch = arch or prepared.space.smallest()
    model = extract(load_supernet(opened, prepared.space), arch)
    metrics = score(model, arch, tasks.get(config.task), prepared, config.training, full=True)
    facts = SubnetFacts(key=arch.key, task=config.task, run=str(opened.path), data=config.data, labels=prepared.labels,
                  costs={"params": 7.0}, made=(HistoryStep(stage="extract", metrics=metrics),))
    return write_subnet(folder or opened.path / "subnets" / arch.key[:12], model, prepared.tokenizer, facts)
