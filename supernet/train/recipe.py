"""How a model is trained: every setting of the training loop, with its default and range."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from supernet.train.strategy import STRATEGIES

BUDGETS = {
    "passes": "forward and backward passes in total, instead of steps",
    "macs": "multiply-adds of all forward passes, such as 20T, instead of steps",
}
"""Budgets of a supernet's training, which are converted to a number of steps (`nas.core.training_budget`)."""


class Recipe(BaseModel):
    """Settings of training. On a CPU, equal recipes, data and code give equal weights."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    seed: int = Field(0, ge=0, lt=2**63, description="random seed of weights, data order, architectures and dropout")
    steps: int = Field(1000, ge=1, description="optimiser steps")
    batch_size: int = Field(16, ge=1, description="sequences per forward pass, summed over all workers")
    accumulate: int = Field(1, ge=1, description="forward passes per optimiser step (gradient accumulation)")

    strategy: Literal[tuple(STRATEGIES)] = Field(  # type: ignore[valid-type]
        "turns", description="architectures trained in each step")
    n_random: int = Field(2, ge=0, description="number of random architectures besides the largest and the smallest")
    distill: float = Field(0.5, ge=0, le=1, description=(
        "weight of soft targets in the loss; they come from the largest architecture, or from the model that a run "
        "starts from"))
    distill_features: float = Field(0.0, ge=0, description=(
        "weight of hidden states in the loss of runs that start from a trained model: 1 - cos to the states of that "
        "model"))
    layerdrop: float = Field(0.0, ge=0, lt=1, description="layer dropout rate during training")
    order_at: float = Field(0.0, ge=0, lt=1, description=(
        "share of the steps that train the largest architecture alone; then channels are ordered by importance and all "
        "architectures are trained; 0: never"))
    order_score: Literal["activation", "taylor"] = Field(
        "activation", description="importance score of channels and heads, for order_at and for runs that start from a "
                                  "trained model")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout rate")

    optimiser: Literal["adamw", "muon"] = Field(
        "muon", description="muon: orthogonalised updates for the matrices of layers, AdamW for the rest")
    lr: float = Field(3e-3, gt=0, description=(
        "peak learning rate; 0.01 for the task lm; use less for models wider than about 512"))
    warmup: int = Field(100, ge=0, description="warm-up steps")
    final_lr: float = Field(0.1, ge=0, le=1, description="final learning rate as a share of lr (cosine decay)")
    weight_decay: float = Field(0.1, ge=0, description="weight decay of AdamW; not applied to norms and biases")
    beta2: float = Field(0.98, ge=0, lt=1, description="beta2 of AdamW")
    clip: float = Field(1.0, ge=0, description="gradient clipping norm; 0: no clipping")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="label smoothing")
    ema: float = Field(0.0, ge=0, lt=1, description="decay of the exponential moving average of the weights; 0: off")

    device: str = Field("auto", description="auto, cpu, cuda, cuda:1, mps, ...")
    precision: Literal["auto", "fp32", "bf16", "fp64"] = Field(
        "auto", description="auto: bf16 on CUDA devices that support it, else fp32")
    checkpointing: bool = Field(False, description="recompute layers in the backward pass: less memory, more time")

    evaluate_every: int = Field(250, ge=0, description="steps between evaluations; 0: at the end only")
    evaluate_limit: int = Field(200, ge=0, description="validation examples per evaluation, drawn once; 0: all")
    patience: int = Field(
        0, ge=0, description="early stopping: evaluations without a better loss; training keeps the best weights; 0: "
                             "off")
    checkpoint_every: int = Field(250, ge=1, description="steps between checkpoints")
    keep: int = Field(2, ge=1, description="number of checkpoints to keep")
    log_every: int = Field(10, ge=1, description="steps between rows of metrics.csv")
    bad_steps: int = Field(10, ge=1, description="stop after this many consecutive steps without a finite gradient")

    @field_validator("*", mode="before")
    @classmethod
    def _switches_are_no_numbers(cls, value: Any, info: ValidationInfo) -> Any:
        """Reject booleans for numbers, such as `steps: yes` in a YAML file."""
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation is not bool:
            raise ValueError("true and false are allowed for boolean settings only")
        return value

    def learning_rate(self, step: int) -> float:
        """The rate of a step, counted from 0: linear warm-up, then cosine decay."""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        done = (step - self.warmup) / max(self.steps - self.warmup, 1)
        return self.lr * (self.final_lr + (1 - self.final_lr) * (1 + math.cos(math.pi * done)) / 2)
