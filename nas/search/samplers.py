"""Public path of the Optuna samplers."""

from nas.stages.search.samplers import PredictorSampler

__all__ = ["PredictorSampler"]
