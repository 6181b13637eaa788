"""Optuna samplers of our own, and the names of all that a search can take."""

from nas.search.samplers._registry import names
from nas.search.samplers.predictor import PredictorSampler

__all__ = ["PredictorSampler", "names"]
