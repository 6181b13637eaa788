"""Shared by stages: run folders, subnets, measures and costs, evaluation, timing, the Ray cluster."""
