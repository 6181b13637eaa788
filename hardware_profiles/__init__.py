"""The price list per device: knows units and opaque workloads, never the supernet."""

from hardware_profiles.latency import LatencyModel
from hardware_profiles.profile import Device, load_profile, shipped_devices

__all__ = ["Device", "LatencyModel", "load_profile", "shipped_devices"]
