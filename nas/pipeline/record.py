"""The progress of a pipeline: `pipeline.json` in the run's folder, written atomically after every change."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from nas.core.run_dir import write_json
from search_spaces.files.reading import checked, read_json

NAME = "pipeline.json"


class Entry(BaseModel):
    """One stage.

    Args:
        inputs: digest of everything that determines it.
        state: `again` if existing results must be archived first.
        output: folders of subnets that it made.
        before: of a stage that has begun, the names of the run's subnets at its first start.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    inputs: str
    state: Literal["again", "begun", "done"]
    seconds: float = Field(0.0, ge=0, allow_inf_nan=False)
    output: tuple[str, ...] = ()
    before: tuple[str, ...] | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    stages: dict[str, Entry] = Field(default_factory=dict)


class PipelineRecord:
    """The entries of all stages. Raises InputError for a damaged file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        remedy = "delete it: finished stages are then checked again, which takes little time"
        self._file = checked(_File, read_json(self.path, remedy), str(self.path), remedy) if self.path.is_file() else \
            _File()

    def get(self, stage: str) -> Entry | None:
        """The entry of a stage."""
        return self._file.stages.get(stage)

    def put(self, stage: str, entry: Entry) -> None:
        """Store the entry of a stage."""
        self._file.stages[stage] = entry
        if self.path.parent.is_dir():
            write_json(self.path, self._file.model_dump())

    def again(self, stages: Iterable[str]) -> None:
        """Mark stages to be repeated."""
        for stage in stages:
            known = self.get(stage)
            if known is not None:
                self.put(stage, known.model_copy(update={"state": "again"}))
