"""The model of an export for transformers: the format `huggingface` writes what is needed of it into one file."""

# mypy: ignore-errors

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor, nn
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import (
    BaseModelOutput,
    CausalLMOutput,
    MaskedLMOutput,
    Seq2SeqLMOutput,
    SequenceClassifierOutput,
)

from supernet.driver import PassInputs, drive
from supernet.layers.norms import make_norm
from supernet.layers.tables import Table
from supernet.parts import Modules

BLOCKS: dict[str, Any] = {}
RESIDUALS: dict[str, Any] = {}
"""The modules that a config's units name."""


class ParetoformerConfig(PretrainedConfig):
    """What a model is made of.

    Args:
        units: by the path of its weights, each part: its role, its module, the settings of that, and for a sub-layer
            its residual and the settings of that.
        steps: path, role, stack, and whether a head is tied, of the parts in the order they run. Parts at one path
            share weights.
        context: the longest sequence.
    """

    model_type = "paretoformer"

    def __init__(self, units: dict[str, Any] | None = None, steps: list[list[Any]] | None = None, context: int = 0,
                 **rest: Any) -> None:
        self.units, self.steps, self.context = units or {}, steps or [], context
        super().__init__(**rest)


class ConfigStep(NamedTuple):
    """A step as the config writes it."""

    path: str
    role: str
    stack: str
    ties: bool


class PlainModel(nn.Module):
    """Token ids in, the head's output out."""

    def __init__(self, units: dict[str, Any], steps: list[list[Any]]) -> None:
        super().__init__()
        self.steps = [ConfigStep(*step) for step in steps]
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
        return drive(self.steps, Modules(self), PassInputs(tokens, target, mask, target_mask, types)).x


def build(unit: dict[str, Any]) -> nn.Module:
    """The module of a unit, its weights not yet set."""
    if unit["role"] == "norm":
        return make_norm(unit["module"], **unit["settings"])
    block = BLOCKS[unit["module"]](**unit["settings"])
    return RESIDUALS[unit["residual"]](block, **unit["around"]) if "residual" in unit else block


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
