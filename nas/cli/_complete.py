"""What the shell can complete arguments to, beside files. Nothing heavy is imported: it happens at every key."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

ROOT = Path("runs")


def spaces(incomplete: str) -> list[str]:
    """Shipped spaces."""
    from search_spaces import shipped_spaces

    return _beginning(shipped_spaces(), incomplete)


def architectures(incomplete: str) -> list[str]:
    """Shipped spaces and published architectures."""
    from nas.resolve import known_names

    return _beginning(known_names(), incomplete)


def devices(incomplete: str) -> list[str]:
    """Shipped devices, and those that were profiled here."""
    from hardware_profiles.profile import shipped_devices

    profiled = (path.parent.name for path in ROOT.glob("profiles/*/profile.yaml"))
    return _beginning([*shipped_devices(), *profiled], incomplete)


def runs(incomplete: str) -> list[str]:
    """The runs of this folder."""
    return _beginning((path.parent.name for path in ROOT.glob("*/config.yaml")), incomplete)


def subnets(incomplete: str) -> list[str]:
    """The subnets of all runs, as RUN/KEY."""
    found = ROOT.glob("*/subnets/*/architecture.json")
    return _beginning((f"{path.parts[-4]}/{path.parts[-2]}" for path in found), incomplete)


def runs_and_subnets(incomplete: str) -> list[str]:
    """Both."""
    return [*runs(incomplete), *subnets(incomplete)]


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete)})
