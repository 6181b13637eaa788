"""Public path of the Optuna samplers.

A re-export; add nothing here.
"""

from nas.stages.search.samplers import PredictorSampler

__all__ = ["PredictorSampler"]
