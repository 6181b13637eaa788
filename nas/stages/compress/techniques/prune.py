"""Magnitude pruning: the smallest weights of the whole model become 0 and stay 0."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from nas.stages.compress.technique import CompressionContext, Early, Technique, Trains
from search_spaces import InputError
from search_spaces.errors import Option
from supernet import Transformer
from supernet.compression.matrices import plain_model
from supernet.compression.pruning import magnitude_masks, masked, sparsity, zeros
from supernet.train.checkpoint import Checkpoints
from supernet.train.recipe import Recipe


class PruneWeights(Technique):
    """Prunes a share of all weights: at once with training afterwards, or by lottery-ticket rewinding.

    Each round of rewinding trains the model, prunes some weights, resets the others and the optimiser state to an early
    step, and trains again from there.
    """

    name: ClassVar[str] = "prune"
    help: ClassVar[str] = "Set this share of the weights (the smallest) to 0 and train the others"
    value: ClassVar[str | None] = "share"
    options: ClassVar[tuple[str, ...]] = ("rewind",)
    lr_share: ClassVar[float] = 1 / 10
    share: float = Field(gt=0, lt=1, description="share of the weights to set to 0")
    rewind: bool = Field(False, description="prune in rounds, each from the weights of an early step (lottery ticket)")
    rounds: int = Field(3, ge=1, description="number of rounds of pruning and rewinding")
    rewind_step: int | None = Field(None, ge=0, description="step to rewind weights to")

    @property
    def suffix(self) -> str:
        """`pruned`."""
        return "pruned"

    @property
    def trains(self) -> Trains:
        """Rewinding always trains."""
        return "always" if self.rewind else "by default"

    @property
    def settable(self) -> tuple[str, ...]:
        """Those of rewinding."""
        return ("rounds", "rewind_step") if self.rewind else ()

    def check(self, model: Transformer, recipe: Recipe) -> None:
        """Refuse a quantised or already pruned model, and an invalid rewind step."""
        super().check(model, recipe)
        if self.rewind and self._early_step(recipe) >= recipe.steps:
            raise InputError(Option("set"), f"rewind_step {self.rewind_step} is not before the last of {recipe.steps} "
                                            "steps")
        if sparsity(model) >= self.share:
            raise InputError(Option(self.name), f"{sparsity(model):.3g} of its weights are already 0; use a larger "
                                                "share")

    def apply(self, context: CompressionContext) -> Transformer:
        """Prune, and train the weights that are left."""
        if self.rewind:
            return self._rewound(context)
        masks = magnitude_masks(context.model, self.share)
        if context.trains:
            return context.train(context.model, masks=masks)
        tensors = {name: masked(tensor, masks.get(name)) for name, tensor in context.model.state_dict().items()}
        return plain_model(context.model.arch, tensors)

    def _early_step(self, recipe: Recipe) -> int:
        return recipe.steps // 10 if self.rewind_step is None else self.rewind_step

    def _rewound(self, context: CompressionContext) -> Transformer:
        early = Early(Checkpoints(context.folder / "early", keep=1), self._early_step(context.recipe))
        masks, dense = zeros(context.model), 1 - sparsity(context.model)
        for done in range(self.rounds + 1):
            trained = context.train(context.model, masks=masks, name=f"round-{done}", early=early)
            if done == self.rounds:
                return trained
            masks = magnitude_masks(trained, 1 - dense * ((1 - self.share) / dense) ** ((done + 1) / self.rounds))
        raise AssertionError("the last round returns")

    def summary(self, before: Transformer, after: Transformer) -> dict[str, Any]:
        """The pruned share, and the method."""
        how = {"rewind": True, "rounds": self.rounds} if self.rewind else {}
        return {"sparsity": round(sparsity(after), 6), **how}
