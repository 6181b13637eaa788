"""Latency profiles per device. Knows units and opaque workloads, never the supernet."""

from typing import TYPE_CHECKING

from hardware_profiles.device import Device, load_profile, shipped_devices
from search_spaces.lazy import lazy

if TYPE_CHECKING:
    from hardware_profiles.latency import LatencyModel

__all__ = ["Device", "LatencyModel", "load_profile", "shipped_devices"]
__getattr__ = lazy(__name__, {"LatencyModel": "hardware_profiles.latency"})
