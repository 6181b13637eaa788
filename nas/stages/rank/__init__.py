"""Ranking quality of a supernet, compared with training from scratch and with size baselines."""
