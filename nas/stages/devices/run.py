"""The devices that are shipped or were profiled here, and whether each is available."""

from __future__ import annotations

from typing import Any

from hardware_profiles import transports
from hardware_profiles.device import Device, load_profile, shipped_devices
from hardware_profiles.profile import named_folder, read_stored, stored_names
from nas.core.availability import why_not, why_unreachable
from nas.core.progress import StageProgress
from nas.stages.devices.request import DevicesRequest

TIMEOUT_S = 5
"""Timeout of a connection to a device, in seconds."""


def run(request: DevicesRequest, progress: StageProgress) -> list[dict[str, Any]]:
    """The devices, a row each."""
    shipped = shipped_devices()
    devices = {name: load_profile(name) for name in shipped}
    devices |= {name: read_stored(named_folder(name)).device for name in stored_names() if name not in shipped}
    task = progress.task("contacting", len(devices)) if request.check else None
    rows = []
    for name, device in devices.items():
        rows.append(_row(name, device, request.check, name in shipped))
        if task is not None:
            task.move()
    return rows


def _row(name: str, device: Device, check: bool, shipped: bool) -> dict[str, Any]:
    measured = not device.estimated and (named_folder(name) / "profile.yaml").is_file()
    state, why = _state(device, check)
    available = {"not checked": None, "not available": False, "not reached": False}.get(state, True)
    if measured and state in ("available", "not checked"):
        state = "measured"
    return {"name": name, "kind": device.kind, "runtime": device.runtime, "precision": device.precision,
            "threads": device.threads, "transport": device.transport["kind"], "estimated": device.estimated,
            "state": state, "available": available, "why_not": why, "measured": measured, "shipped": shipped,
            "description": device.description}


def _state(device: Device, check: bool) -> tuple[str, str]:
    """The availability of a device in a word, and why it is not available."""
    if device.estimated:
        return "estimated", ""
    if why := why_not(device):
        return "not available", why
    if transports.get(device.transport["kind"]).TRANSPORT.HERE:
        return "available", ""
    if not check:
        return "not checked", ""
    why = why_unreachable(device, TIMEOUT_S)
    return ("not reached", why) if why else ("reached", "")
