"""Heads of pretrained encoders: the blocks they correspond to, and where their tensors are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from nas.importers._base import Link, same
from nas.importers._building import BlockDims
from nas.importers._config import PretrainedSettings
from search_spaces import Architecture

BOTH = ("weight", "bias")
ENDINGS = {"ForMaskedLM": "masked_lm", "ForPreTraining": "masked_lm", "ForSequenceClassification": "classifier",
           "Model": "features"}
"""The end of a class name -> its head."""


def class_labels(arch: Architecture) -> dict[str, dict[str, str]]:
    """How a config states the number of classes."""
    return {"id2label": {str(i): f"LABEL_{i}" for i in range(arch.n_classes)}} if arch.n_classes else {}


@dataclass(frozen=True)
class EncoderHeads:
    """The names of a family's heads.

    Args:
        body: prefix of all tensors of the encoder in a model with a head.
        stem: of the class names, such as `Bert`.
        pooler: of the linear map after the first token in the body; empty if there is none.
        transform: linear map and norm of the masked-token head, and its output bias.
        classifier: linear map (the pooler, where it is in the body) and output of the classifier.
        activation: of the masked-token head; empty for that of the layers.
        pooling: activation of the classifier's linear map.
    """

    body: str
    stem: str
    pooler: str
    transform: tuple[str, str, str]
    classifier: tuple[str, str]
    activation: str = ""
    pooling: str = "tanh"

    def choose(self, config: PretrainedSettings, wanted: str | None, names: frozenset[str]) -> str:
        """The head to import; for a model without one, the pooler if the checkpoint has it. Raises InputError."""
        possible = ("features", *(("pooler",) if self.pooler else ()), "masked_lm", "classifier")
        head = config.head(wanted, self._endings(), possible)
        if head == "features" and wanted is None and f"{self.prefixed(names, head)}{self.pooler}.weight" in names:
            return "pooler"
        if head == "masked_lm":
            config.only("tie_word_embeddings", True)
        return head

    def _endings(self) -> dict[str, str]:
        """ELECTRA is pretrained as a discriminator, which has a head of its own."""
        return {end: head for end, head in ENDINGS.items() if self.stem != "Electra" or end != "ForPreTraining"}

    def block(self, head: str, activation: str) -> BlockDims:
        """The head as a block of ours; `activation` is that of the layers."""
        blocks: dict[str, BlockDims] = {
            "features": ("features", {"pooler": False}), "pooler": ("features", {"pooler": True}),
            "masked_lm": ("masked_lm", {"activation": self.activation or activation}),
            "classifier": ("classifier", {"pool": "first", "pooler": True, "pooler_activation": self.pooling})}
        return blocks[head]

    def cls(self, head: str) -> str:
        """The class in transformers that has this head."""
        return self.stem + {"features": "Model", "pooler": "Model", "masked_lm": "ForMaskedLM",
                            "classifier": "ForSequenceClassification"}[head]

    def prefixed(self, names: frozenset[str], head: str) -> str:
        """The prefix of the body's tensors in this checkpoint; without names, in the stock class."""
        if names:
            return self.body if any(name.startswith(self.body) for name in names) else ""
        return "" if head in ("features", "pooler") else self.body

    def links(self, head: str, prefix: str) -> Iterator[Link]:
        """The tensors of a head."""
        if head == "pooler":
            yield from same("head.pooler", f"{prefix}{self.pooler}", *BOTH)
        elif head == "masked_lm":
            linear, norm, bias = self.transform
            yield from same("head.transform", linear, *BOTH)
            yield from same("head.norm", norm, *BOTH)
            yield Link(bias, ("head.bias",))
        elif head == "classifier":
            linear, out = self.classifier
            yield from same("head.pooler", linear.replace(self.body, prefix) if self.pooler else linear, *BOTH)
            yield from same("head.classes", out, *BOTH)

    def ignored(self, head: str, prefix: str, names: frozenset[str]) -> tuple[str, ...]:
        """Tensors of the model that this head does not need: other heads, buffers, tied copies."""
        used = {link.theirs for link in self.links(head, prefix)}
        others = tuple(name for name in names if prefix and not name.startswith(prefix) and name not in used)
        unused = () if head in ("pooler", "classifier") or not self.pooler else (f"{prefix}{self.pooler}.",)
        return (*others, *unused, f"{prefix}embeddings.position_ids", f"{prefix}embeddings.token_type_ids")

    def without(self, **changes: str) -> EncoderHeads:
        """The same with other names."""
        return replace(self, **changes)  # type: ignore[arg-type]
