"""Head pruning: the attention heads that matter least are left out, and the architecture is smaller for it."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from nas.compress._base import Technique, Trains, Work
from search_spaces import InputError
from supernet import Transformer
from supernet.fit import enough_memory, less_memory
from supernet.heads import attentions, importance, least_important, without
from supernet.matrices import plain_model
from supernet.recipe import Recipe


class PruneHeads(Technique):
    """A share of the attention heads taken away, those first whose gates the loss depends on least."""

    name: ClassVar[str] = "prune-heads"
    value: ClassVar[str | None] = "share"
    share: float = Field(gt=0, lt=1)
    batches: int = Field(16, ge=1, description="training batches that heads are judged on")

    @property
    def suffix(self) -> str:
        """`heads`."""
        return "heads"

    @property
    def trains(self) -> Trains:
        """Where the user gives steps."""
        return "on request"

    @property
    def settable(self) -> tuple[str, ...]:
        """How long heads are judged."""
        return ("batches",)

    def check(self, model: Transformer, recipe: Recipe) -> None:
        """Refuse what is quantised, or has no head to spare."""
        super().check(model, recipe)
        if all(each.n_heads == 1 for _, each in attentions(model).values()):
            raise InputError("--prune-heads", "no layer has a head to spare; attention and cross_attention can leave "
                                              "some out, and every layer keeps one")
        if round(self.share * count_heads(model)) < 1:
            raise InputError("--prune-heads", f"{self.share:g} of {count_heads(model)} heads is less than one")

    def apply(self, work: Work) -> Transformer | None:
        """Judge the heads, leave out the least, and train where asked."""
        model = plain_model(work.model.arch, work.model.state_dict()).to(work.device)
        with enough_memory("judging heads", less_memory(work.recipe)):
            scores = importance(model, work.batches(self.batches))
        gone = least_important(work.model, scores, round(self.share * count_heads(work.model)))
        if not gone:
            raise InputError("--prune-heads", f"{self.share:g} of {count_heads(work.model)} heads is less than those "
                                              "that share a key, which go together; ask for more")
        made = without(work.model, gone)
        return work.train(made) if work.tunes else made

    def told(self, before: Transformer, after: Transformer) -> dict[str, Any]:
        """How many there were and are."""
        return {"heads": count_heads(after), "heads_before": count_heads(before)}


def count_heads(model: Transformer) -> int:
    """The heads that can be left out, before every layer keeps one."""
    return sum(each.n_heads for _, each in attentions(model).values())
