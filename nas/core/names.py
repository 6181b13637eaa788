"""Finds runs and subnets by their names: RUN, and RUN/KEY with the beginning of a key.

Imports nothing heavy, because shell completion does so at every key press.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from search_spaces.files import ARCHITECTURE

ROOT, CONFIG, SUBNETS = Path("runs"), "config.yaml", "subnets"


def known_runs() -> list[str]:
    """The names of the runs that are here."""
    return sorted(path.parent.name for path in ROOT.glob(f"*/{CONFIG}"))


def run_and_key(name: str) -> tuple[Path | None, str]:
    """The folder of the run in RUN/KEY, where RUN is a name or a path, and the key; None if there is no such run."""
    run, _, key = name.rpartition("/")
    folders = (Path(run), ROOT / run) if run else ()
    return next((folder for folder in folders if (folder / CONFIG).is_file() or (folder / SUBNETS).is_dir()), None), key


def subnets_in(run: Path) -> list[Path]:
    """The folders of a run's subnets by name, without unfinished ones."""
    folders = (path.parent for path in (run / SUBNETS).glob(f"*/{ARCHITECTURE}"))
    return sorted(folder for folder in folders if not folder.name.startswith("."))


def matching(key: str, subnets: Sequence[Path]) -> list[Path]:
    """The subnets that a key names: the exact one, else keys with this prefix and suffix, else all with this prefix.

    `7b9f` is the extracted subnet even if others were derived from it; `7b9f-int8` is one of those.
    """
    begins, _, ends = key.partition("-")
    ways = ([subnet for subnet in subnets if subnet.name == key],
            [subnet for subnet in subnets if subnet.name.startswith(begins) and subnet.name.partition("-")[2] == ends],
            [subnet for subnet in subnets if subnet.name.startswith(key)])
    return next(filter(None, ways), []) if key else []
