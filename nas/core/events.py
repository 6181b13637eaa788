"""`events.jsonl` in a run's folder: events besides its results, such as a machine that left the cluster."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from search_spaces.files.reading import parse_json

FILE = "events.jsonl"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Event:
    """One event.

    Args:
        time: when, in ISO 8601.
        kind: `node_left` for a machine of a Ray cluster that died or was taken away.
        stage: what was running.
        says: a sentence for a reader.
    """

    time: str
    kind: str
    stage: str
    says: str


def add_event(folder: Path, kind: str, stage: str, says: str) -> None:
    """Append an event; ignored if the folder is not writable."""
    event = Event(datetime.now().astimezone().isoformat(timespec="seconds"), kind, stage, says)
    with suppress(OSError), (folder / FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"schema_version": SCHEMA_VERSION, **asdict(event)}) + "\n")


def read_events(folder: Path) -> list[Event]:
    """The events of a run, oldest first; incomplete or unknown lines are ignored."""
    found = []
    with suppress(OSError):
        for line in (folder / FILE).read_text("utf-8", errors="replace").splitlines():
            with suppress(ValueError, KeyError, TypeError):
                data = parse_json(line, FILE)
                if data["schema_version"] == SCHEMA_VERSION:
                    found.append(Event(*(str(data[name]) for name in ("time", "kind", "stage", "says"))))
    return found
