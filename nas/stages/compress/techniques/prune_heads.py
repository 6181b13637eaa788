"""Head pruning: removes the least important attention heads, which makes the architecture smaller."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from nas.stages.compress.technique import CompressionContext, Technique, Trains
from search_spaces import InputError
from search_spaces.errors import Option
from supernet import Transformer
from supernet.compression.heads import attentions, importance, least_important, without
from supernet.compression.matrices import plain_model
from supernet.train.fit import enough_memory, less_memory
from supernet.train.recipe import Recipe


class PruneHeads(Technique):
    """Removes a share of the attention heads, lowest importance first."""

    name: ClassVar[str] = "prune-heads"
    help: ClassVar[str] = "Remove this share of the attention heads (the least important)"
    value: ClassVar[str | None] = "share"
    share: float = Field(gt=0, lt=1, description="share of the heads to remove")
    batches: int = Field(16, ge=1, description="training batches for estimating the importance of heads")

    @property
    def suffix(self) -> str:
        """`heads`."""
        return "heads"

    @property
    def trains(self) -> Trains:
        """If the user sets steps."""
        return "on request"

    def check(self, model: Transformer, recipe: Recipe) -> None:
        """Refuse what is quantised, or has no head to prune."""
        super().check(model, recipe)
        if all(attention.n_heads == 1 for _, attention in attentions(model).values()):
            raise InputError(Option(self.name), "no layer has a head to prune: only attention and cross_attention "
                                                "have heads, and every layer keeps at least one")
        if round(self.share * count_heads(model)) < 1:
            raise InputError(Option(self.name), f"{self.share:g} of {count_heads(model)} heads is less than one")

    def apply(self, context: CompressionContext) -> Transformer:
        """Rank the heads, remove the least important, and train if steps are set."""
        model = plain_model(context.model.arch, context.model.state_dict()).to(context.device)
        with enough_memory("scoring heads", less_memory(context.recipe)):
            scores = importance(model, context.batches(self.batches))
        gone = least_important(context.model, scores, round(self.share * count_heads(context.model)))
        if not gone:
            raise InputError(Option(self.name), f"{self.share:g} of {count_heads(context.model)} heads is less than "
                                                "one group of heads with a shared key; use a larger share")
        smaller = without(context.model, gone)
        return context.train(smaller) if context.trains else smaller

    def summary(self, before: Transformer, after: Transformer) -> dict[str, Any]:
        """Number of heads before and after."""
        return {"heads": count_heads(after), "heads_before": count_heads(before)}


def count_heads(model: Transformer) -> int:
    """Number of heads that can be removed if every layer keeps one."""
    return sum(attention.n_heads for _, attention in attentions(model).values())
