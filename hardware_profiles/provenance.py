"""Versions and processor that a latency depends on, and their changes since the measurement."""

from __future__ import annotations

from hardware_profiles import protocol, runtimes, transports
from hardware_profiles.device import Device, load_profile, shipped_devices
from hardware_profiles.profile import Stored, differences


class ProfileWarning(UserWarning):
    """A profile was measured under other conditions than the current ones."""


def provenance(device: Device) -> dict[str, str]:
    """Versions and processor of a measurement made now; empty for a device that is not this machine."""
    if not transports.get(device.transport["kind"]).TRANSPORT.HERE:
        return {}
    return {**runtimes.get(device.runtime).versions(), "cpu": protocol.machine()["cpu"]}


def today(device: Device) -> dict[str, str]:
    """Current versions and processor of a device; empty if they cannot be determined from here."""
    return {} if device.estimated or runtimes.get(device.runtime).missing() else provenance(device)


def changes(stored: Stored) -> list[str]:
    """Changes since a profile was measured, one sentence each.

    The device is compared with its current shipped file, if there is one.
    """
    measured = stored.device
    now = load_profile(measured.name) if measured.name in shipped_devices() else measured
    return differences(stored, today(measured), now)
