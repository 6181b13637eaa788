"""The price list per device: knows units and opaque workloads, never the supernet."""
