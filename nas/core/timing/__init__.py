"""Build workloads, compile them and time them on a device."""
