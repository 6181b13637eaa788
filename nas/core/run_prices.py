"""Prices for the architectures of a run, and whether the profiles behind them changed."""

from __future__ import annotations

from collections.abc import Sequence

from hardware_profiles.profile import folder_of
from nas.core.measures.latency import LATENCY
from nas.core.pricing import Prices, load_devices
from nas.core.run_dir import RunDir, digest
from search_spaces import InputError, SearchSpace
from search_spaces.errors import Command


def load_prices(devices: Sequence[str], space: SearchSpace, run: RunDir) -> Prices:
    """The prices on devices.

    Args:
        space: the run's, with the vocabulary of its data.

    Raises:
        InputError: a device was not profiled, or for other units, such as another vocabulary.
    """
    prices = Prices(load_devices(devices), space.context)
    for name, device in prices.devices.items():
        for phase in LATENCY.known_phases(device):
            try:
                device.predict_many([space.smallest(), space.largest()], phase)
            except InputError as error:
                reason = error.faults[0].reason
                raise InputError(name, f"{reason}; run {Command('profile', name, space=str(run.path))}") from None
    return prices


def profile_input(device: str) -> str:
    """The name of a device's profile among the inputs of a search."""
    return f"the profile of {device}"


def profile_digest(device: str) -> str | None:
    """The digest of a device's profile; None if it is not here."""
    try:
        folder = folder_of(device)
    except InputError:  # the file that describes the device is gone
        return None
    files = [folder / "profile.yaml", folder / "table.csv"]
    return digest(*files) if all(path.is_file() for path in files) else None
