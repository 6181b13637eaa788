"""Shell completion of arguments, besides files. Imports nothing heavy, because it runs at every key press."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from nas.core.names import ROOT, SUBNETS, known_runs
from search_spaces.files import ARCHITECTURE

_DEVICE_FILE = re.compile(r"^runtime:", re.MULTILINE)
"""Matches device files, and no other YAML files such as spaces or configs."""


def spaces(incomplete: str) -> list[str]:
    """Shipped spaces."""
    from search_spaces import shipped_spaces

    return _beginning(shipped_spaces(), incomplete)


def architectures(incomplete: str) -> list[str]:
    """Shipped spaces, published architectures, and RUN/KEY of subnets and of architectures on fronts."""
    from nas.core.resolve import known_names

    run = incomplete.partition("/")[0]
    searched = [path for path in ROOT.glob("*/pareto.json") if run and path.parent.name.startswith(run)]
    front = [key for path in searched for key in _front_keys(path)]  # for all runs, it would be too much to read
    return [*_beginning([*known_names(), *front], incomplete), *subnets(incomplete)]


def devices(incomplete: str) -> list[str]:
    """Shipped devices, those that were profiled here, and files of devices and folders of profiles."""
    from hardware_profiles.device import shipped_devices

    profiled = (path.parent.name for path in ROOT.glob("profiles/*/profile.yaml"))
    return _beginning([*shipped_devices(), *profiled, *_device_paths(incomplete)], incomplete)


def runs(incomplete: str) -> list[str]:
    """The runs of this folder."""
    return _beginning(known_runs(), incomplete)


def subnets(incomplete: str) -> list[str]:
    """The subnets of all runs, as RUN/KEY."""
    files = ROOT.glob(f"*/{SUBNETS}/*/{ARCHITECTURE}")
    return _beginning((f"{path.parts[-4]}/{path.parts[-2]}" for path in files), incomplete)


def runs_and_subnets(incomplete: str) -> list[str]:
    """Runs, and subnets as RUN/KEY."""
    return [*runs(incomplete), *subnets(incomplete)]


def _front_keys(path: Path) -> list[str]:
    """RUN/KEY of architectures on a front that are not extracted yet; nothing if the file cannot be read."""
    from search_spaces.files.reading import read_table

    folder = path.parent
    try:
        keys = [str(architecture["key"])[:12] for architecture in read_table(path)["architectures"]]
    except (ValueError, KeyError, TypeError):
        return []
    return [f"{folder.name}/{key}" for key in keys if not (folder / SUBNETS / key).is_dir()]


def _device_paths(incomplete: str) -> Iterator[str]:
    """Device files and folders of profiles in the folder whose name is typed so far; the working directory at first."""
    before = incomplete[:incomplete.rfind("/") + 1]
    folder = Path(before or ".")
    for path in (*folder.glob("*.yaml"), *folder.glob("*.yml")):
        if path.name != "profile.yaml" and _DEVICE_FILE.search(_beginning_of(path)):
            yield f"{before}{path.name}"
    yield from (f"{before}{path.parent.name}" for path in folder.glob("*/profile.yaml"))


def _beginning_of(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(10_000)
    except OSError:
        return ""


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete)})
