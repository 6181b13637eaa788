"""Prune a model to a limit without a search: the baselines of a search."""
