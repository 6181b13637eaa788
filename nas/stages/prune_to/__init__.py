"""Prune a model to a limit without a search, as a baseline for one."""
