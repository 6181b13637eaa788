"""Quantisation and pruning of plain models."""
