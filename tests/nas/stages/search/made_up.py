"""Profiles with made-up prices, so that searches have devices without measuring any."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from hardware_profiles.device import parse_device
from hardware_profiles.profile import Conditions, Stored
from hardware_profiles.table import PriceRow, PriceTable, UnitWork, unit_text
from search_spaces import SearchSpace
from search_spaces.space.inventory import inventory


def write_profile(space: SearchSpace, name: str, seed: int = 0, interpolated: Collection[str] = ()) -> None:
    """`runs/profiles/<name>` with a price for every unit of the space, some function of its text.

    Args:
        interpolated: roles of the units whose prices are said to be so.
    """
    device = parse_device(f"schema_version: 1\nname: {name}\nkind: cpu\nruntime: torch-eager\n", "here")
    units = dict.fromkeys(unit for units in inventory(space).values() for unit in units)
    rows = []
    for unit in units:
        text = unit_text(unit)
        price = 0.1 + (len(text) * 7919 + sum(map(ord, text)) * (seed + 1)) % 97 / 100
        source = "interpolated" if unit.role in interpolated else "measured"
        rows.append(PriceRow("prefill", unit, price, 0.9 * price, 1.1 * price, source, UnitWork(1e6, 4e3, 8e3, 5)))
    folder = Path("runs", "profiles", name)
    folder.mkdir(parents=True, exist_ok=True)
    stored = Stored(device=device, conditions=Conditions(batch=1, length=8, past=4))
    (folder / "profile.yaml").write_text(stored.to_yaml(), "utf-8")
    (folder / "table.csv").write_text(PriceTable(rows).to_csv(), "utf-8")
