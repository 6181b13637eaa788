"""Stored evaluations: one line of JSON each, indexed by the architecture's key."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from nas.core.study import remove_incomplete_line
from nas.stages.search.evaluator import Evaluation
from search_spaces import InputError
from search_spaces.files.reading import checked, read_json_lines

SCHEMA_VERSION = 1
REMEDY = "delete it; its evaluations are repeated"


class _EvaluationLine(BaseModel):
    """An evaluation as a line holds it."""

    key: str
    metrics: dict[str, float]
    losses: tuple[float, ...]
    interval: tuple[float, float] | None


class Evaluations:
    """A store of evaluations. Failed evaluations are not stored, because they may succeed next time.

    Args:
        path: of the file; its first line contains the conditions; each set of conditions has its own file.
        conditions: everything that an evaluation depends on but the architecture.
    """

    def __init__(self, path: Path, conditions: dict[str, Any]) -> None:
        self.path = path
        self._known: dict[str, Evaluation] = {}
        remove_incomplete_line(path)
        head = {"schema_version": SCHEMA_VERSION, **conditions}
        if path.is_file() and path.stat().st_size:
            self._read(head)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append(head)

    @classmethod
    def of(cls, run: Path, conditions: dict[str, Any]) -> Evaluations:
        """What was evaluated in a run under the same conditions. Raises InputError if that is damaged."""
        name = hashlib.sha256(repr(sorted(conditions.items())).encode()).hexdigest()[:12]
        return cls(run / "evaluations" / f"{name}.jsonl", conditions)

    def _read(self, head: dict[str, Any]) -> None:
        lines = read_json_lines(self.path, REMEDY)
        if next(lines)[1] != head:
            raise InputError(str(self.path), "was written under other conditions; delete it")
        for number, data in lines:
            line = checked(_EvaluationLine, data, f"{self.path}, line {number}", REMEDY)
            self._known[line.key] = Evaluation(line.metrics, line.losses, line.interval)

    def get(self, key: str) -> Evaluation | None:
        """The stored evaluation of an architecture, possibly an estimate."""
        return self._known.get(key)

    def __len__(self) -> int:
        return len(self._known)

    def add(self, key: str, evaluation: Evaluation) -> None:
        """Keep an evaluation."""
        if evaluation.reason:
            return
        self._known[key] = evaluation
        self._append({"key": key, "metrics": evaluation.metrics, "losses": evaluation.losses,
                      "interval": evaluation.interval})

    def _append(self, data: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(data) + "\n")
