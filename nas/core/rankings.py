"""Predictors of quality: the columns of `ranking.csv`, which `nas rank` writes."""

from __future__ import annotations

INHERITED, TRAINED, REPEAT, GROUP = "inherited_loss", "trained_loss", "repeat_loss", "group"
PREDICTOR_WORDS = {INHERITED: "the supernet's loss", "params": "parameters",
                   "non_embedding_params": "parameters without embeddings", "macs": "MACs", "depth": "depth",
                   "grad_norm": "gradient norm at initialisation", "synflow": "synaptic flow"}
"""Predictor -> its name in texts."""
