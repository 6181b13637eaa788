"""Evaluations that are kept: a line of JSON each, found again by the architecture's key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, Any

from nas.search.evaluator import Evaluation
from nas.search.study import cut_back
from search_spaces import InputError

SCHEMA_VERSION = 1


class Evaluations:
    """What is known about architectures. A failed evaluation is not kept: it may go well next time.

    Args:
        path: of the file; its first line says under which conditions, and a file of other conditions is another file.
        conditions: everything that an evaluation depends on but the architecture.
    """

    def __init__(self, path: Path, conditions: dict[str, Any]) -> None:
        self.path = path
        self._known: dict[str, Evaluation] = {}
        cut_back(path)
        head = {"schema_version": SCHEMA_VERSION, **conditions}
        if path.is_file() and path.stat().st_size:
            self._read(head)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append(head)

    def _read(self, head: dict[str, Any]) -> None:
        with self.path.open(encoding="utf-8") as file:
            try:
                if json.loads(next(file)) != head:
                    raise InputError(str(self.path), "was written under other conditions; delete it")
                for line in file:
                    data = json.loads(line)
                    interval = tuple(data["interval"]) if data["interval"] else None
                    self._known[data["key"]] = Evaluation(data["metrics"], tuple(data["losses"]), interval)
            except (ValueError, KeyError, TypeError) as error:
                if isinstance(error, InputError):
                    raise
                raise InputError(str(self.path), "is damaged; delete it, its evaluations are done again") from None

    def get(self, key: str) -> Evaluation | None:
        """What is known about an architecture; an estimate counts as knowing."""
        return self._known.get(key)

    def __len__(self) -> int:
        return len(self._known)

    def add(self, key: str, found: Evaluation) -> None:
        """Keep an evaluation."""
        if found.reason:
            return
        self._known[key] = found
        self._append({"key": key, "metrics": found.metrics, "losses": found.losses, "interval": found.interval})

    def _append(self, data: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            _write_line(file, json.dumps(data))


def _write_line(file: IO[str], text: str) -> None:
    file.write(text + "\n")
    file.flush()
