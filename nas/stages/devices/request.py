"""The request for the list of devices."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DevicesRequest:
    """List the devices that are shipped or were profiled here.

    Args:
        check: contact those that are not this machine; takes a few seconds each.
    """

    check: bool = False
