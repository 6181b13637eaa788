"""Run a subnet on texts."""
