"""Optuna samplers of our own, and the names of all that a search can take."""

from nas.stages.search.samplers._problem import Params, Problem
from nas.stages.search.samplers._registry import Proposer, get, names
from nas.stages.search.samplers.predictor import PredictorSampler

__all__ = ["Params", "PredictorSampler", "Problem", "Proposer", "get", "names"]
