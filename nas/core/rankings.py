"""What `nas rank` writes to a run's folder: training runs from scratch, and the columns of `ranking.csv`."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, field_validator

from nas.core.fronts import read_architecture
from nas.core.run_dir import RunDir
from search_spaces import Architecture
from search_spaces.files import ARCHITECTURE
from search_spaces.files.reading import checked, read_json

RESULT = "result.json"

INHERITED, TRAINED, REPEAT, GROUP = "inherited_loss", "trained_loss", "repeat_loss", "group"
PREDICTOR_WORDS = {INHERITED: "the supernet's loss", "params": "parameters",
                   "non_embedding_params": "parameters without embeddings", "macs": "MACs", "depth": "depth",
                   "grad_norm": "gradient norm at initialisation", "synflow": "synaptic flow"}
"""Predictor -> its name in texts."""


class _Result(BaseModel):
    """The fields that are read from `result.json`."""

    steps: int = 0
    metrics: dict[str, float | None]

    @field_validator("metrics")
    @classmethod
    def _has_a_loss(cls, metrics: dict[str, float | None]) -> dict[str, float | None]:
        if "loss" not in metrics:
            raise ValueError("the loss is missing")
        return metrics


@dataclass(frozen=True)
class TrainedArchitecture:
    """An architecture that was trained from scratch, and its validation loss, the mean over its seeds."""

    arch: Architecture
    loss: float


def read_result(folder: Path) -> dict[str, float] | None:
    """The metrics of a finished training; None if there is none. Raises InputError for a damaged file."""
    result = _read_result(folder)
    return None if result is None else {name: math.nan if value is None else value
                                        for name, value in result.metrics.items()}


def read_trained(run: RunDir) -> list[TrainedArchitecture]:
    """The architectures of a run that were trained from scratch, by key; with several numbers of steps, the largest.

    Raises:
        InputError: a file is damaged.
    """
    results = list(_results(run.path / "rank"))
    longest = max((steps for _, steps, _ in results), default=0)
    losses, archs = defaultdict(list), {}
    for arch, steps, loss in results:
        if steps == longest:
            archs[arch.key] = arch
            losses[arch.key].append(loss)
    return [TrainedArchitecture(archs[key], sum(losses[key]) / len(losses[key])) for key in sorted(archs)]


def _results(folder: Path) -> Iterator[tuple[Architecture, int, float]]:
    """Architecture, steps and loss of every finished training that did not diverge."""
    for path in sorted(folder.glob(f"*/{RESULT}")):
        result, remedy = _read_result(path.parent), "delete its folder to train this architecture again"
        loss = None if result is None else result.metrics["loss"]
        if result is not None and loss is not None and math.isfinite(loss):
            source = path.with_name(ARCHITECTURE)
            data = checked(_ArchitectureFile, {"data": read_json(source, remedy)}, str(source), remedy)
            yield read_architecture(data.data, source, remedy), result.steps, loss


class _ArchitectureFile(BaseModel):
    """Anything that may be an architecture."""

    data: dict[str, object]


def _read_result(folder: Path) -> _Result | None:
    path, remedy = folder / RESULT, "delete it to train this architecture again"
    return checked(_Result, read_json(path, remedy), str(path), remedy) if path.is_file() else None
