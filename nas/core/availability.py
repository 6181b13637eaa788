"""Whether a device can be used from this machine."""

from __future__ import annotations

from typing import Any

from hardware_profiles import runtimes, transports
from hardware_profiles.device import Device
from search_spaces.errors import InputError


def why_not(device: Device) -> str:
    """Why a device cannot be used here; empty if it can, or is only estimated.

    Devices on other machines are not contacted: that takes time. See `why_unreachable`.
    """
    if device.estimated:
        return ""
    transport = transports.get(device.transport["kind"])
    return runtimes.get(device.runtime).missing() or transport.missing(transport.SETTINGS(**_settings(device))) or ""


def why_unreachable(device: Device, timeout_s: int) -> str:
    """Contact a device; returns why it does not answer, or nothing."""
    settings, transport = _settings(device), transports.get(device.transport["kind"])
    if "connect_timeout" in settings:
        settings["connect_timeout"] = min(timeout_s, settings["connect_timeout"])
    try:
        transport.TRANSPORT(transport.SETTINGS(**settings), device.name).check(device.runtime)
    except InputError as error:
        return error.faults[0].message
    return ""


def _settings(device: Device) -> dict[str, Any]:
    return {name: value for name, value in device.transport.items() if name != "kind"}
