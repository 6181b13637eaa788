"""Optuna samplers of our own."""

from nas.search.samplers.predictor import PredictorSampler

__all__ = ["PredictorSampler"]
