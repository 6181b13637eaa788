"""The model of an export for transformers: `nas.export.huggingface` writes what is needed of it into one file."""

# mypy: ignore-errors

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import (
    BaseModelOutput,
    CausalLMOutput,
    MaskedLMOutput,
    Seq2SeqLMOutput,
    SequenceClassifierOutput,
)

from supernet.call import Call
from supernet.norms import make_norm
from supernet.sublayer import SubLayer
from supernet.tables import Table

BLOCKS: dict[str, Any] = {}
"""The modules that a config's units name."""


class ParetoformerConfig(PretrainedConfig):
    """What a model is made of.

    Args:
        units: by the path of its weights, each part: its role, its module, the settings of that, and for a sub-layer
            the norm and residual around it.
        steps: path, role and stack of the parts in the order they run. Parts at one path share weights.
        context: the longest sequence.
    """

    model_type = "paretoformer"

    def __init__(self, units: dict[str, Any] | None = None, steps: list[list[str]] | None = None, context: int = 0,
                 **rest: Any) -> None:
        self.units, self.steps, self.context = units or {}, steps or [], context
        super().__init__(**rest)


class PlainModel(nn.Module):
    """Token ids in, the head's output out."""

    def __init__(self, units: dict[str, Any], steps: list[list[str]]) -> None:
        super().__init__()
        self.steps = steps
        for path, unit in units.items():
            *containers, last = path.split(".")
            inside = self
            for name in containers:
                if name not in inside._modules:
                    inside.add_module(name, nn.Module())
                inside = inside.get_submodule(name)
            inside.add_module(last, build(unit))

    def forward(self, tokens: Tensor, target: Tensor | None, mask: Tensor | None, target_mask: Tensor | None,
                types: Tensor | None) -> Tensor:
        x, call = tokens, Call(mask=mask)
        for path, role, stack in self.steps:
            part = self.get_submodule(path)
            if role == "embedding":
                embedding = part
                if stack == "decoder" and target is not None:
                    x, call = part(target, None, True), Call(mask=target_mask, memory=x, memory_mask=mask)
                else:
                    x = part(tokens, types, False)
            elif role == "norm":
                x = part(x)
            elif role == "head":
                x = part(x, call.mask, dict(embedding.named_parameters()))
            else:
                x = part(x, call)
        return x


def build(unit: dict[str, Any]) -> nn.Module:
    """The module of a unit, its weights not yet set."""
    if unit["role"] == "norm":
        return make_norm(unit["module"], **unit["settings"])
    block = BLOCKS[unit["module"]](**unit["settings"])
    return SubLayer(block, **unit["around"]) if "around" in unit else block


class ParetoformerModel(PreTrainedModel):
    """Gives what the head gives: of this class, features."""

    config_class = ParetoformerConfig
    base_model_prefix = "plain"

    def __init__(self, config: ParetoformerConfig) -> None:
        super().__init__(config)
        self.plain = PlainModel(config.units, config.steps)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, Table):  # follows from the settings and is stored nowhere
            module.values.copy_(module.compute())
        else:
            super()._init_weights(module)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None,
                **others: Any) -> Any:
        return BaseModelOutput(last_hidden_state=self.run(input_ids, attention_mask, token_type_ids))

    def run(self, tokens: Tensor, mask: Tensor | None, types: Tensor | None, target: Tensor | None = None,
            target_mask: Tensor | None = None) -> Tensor:
        """The plain model; masks may be of any type, 0 where padding stands."""
        mask, target_mask = (None if each is None else each != 0 for each in (mask, target_mask))
        return self.plain(tokens, target, mask, target_mask, types)


class ParetoformerForCausalLM(ParetoformerModel, GenerationMixin):
    """Logits of every next token. Texts that are continued together must be equally long."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None,
                **others: Any) -> Any:
        return CausalLMOutput(logits=self.run(input_ids, attention_mask, token_type_ids))

    def prepare_inputs_for_generation(self, input_ids: Tensor, attention_mask: Tensor | None = None,
                                      **others: Any) -> dict[str, Any]:
        """The whole text each time, the end of one that is longer than the context."""
        last = slice(-self.config.context, None)
        return {"input_ids": input_ids[:, last],
                "attention_mask": None if attention_mask is None else attention_mask[:, last]}


class ParetoformerForMaskedLM(ParetoformerModel):
    """Logits of every token."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None,
                **others: Any) -> Any:
        return MaskedLMOutput(logits=self.run(input_ids, attention_mask, token_type_ids))


class ParetoformerForSequenceClassification(ParetoformerModel):
    """Logits of the classes."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None,
                **others: Any) -> Any:
        return SequenceClassifierOutput(logits=self.run(input_ids, attention_mask, token_type_ids))


class ParetoformerForSeq2SeqLM(ParetoformerModel):
    """Logits of every next token of the target."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None,
                decoder_input_ids: Tensor | None = None, decoder_attention_mask: Tensor | None = None,
                **others: Any) -> Any:
        return Seq2SeqLMOutput(logits=self.run(input_ids, attention_mask, token_type_ids, decoder_input_ids,
                                               decoder_attention_mask))
