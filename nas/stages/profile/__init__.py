"""Profiling a device for a space: what is timed, on what, and how well it predicts."""
