"""Our Optuna samplers, and the names of all samplers."""

from nas.stages.search.samplers._problem import Params, Problem
from nas.stages.search.samplers._registry import Proposer, get, names
from nas.stages.search.samplers.predictor import PredictorSampler

__all__ = ["Params", "PredictorSampler", "Problem", "Proposer", "get", "names"]
