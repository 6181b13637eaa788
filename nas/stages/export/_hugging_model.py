"""The model of an export for transformers: the format `huggingface` copies the needed parts into one file."""

# mypy: ignore-errors

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import (
    BaseModelOutput,
    CausalLMOutputWithPast,
    MaskedLMOutput,
    Seq2SeqLMOutput,
    SequenceClassifierOutput,
)

from search_spaces.units import SUBLAYERS
from supernet.batch import IGNORE
from supernet.driver import PassInputs, PassResult, drive
from supernet.layers.norms import make_norm
from supernet.layers.tables import Table
from supernet.parts import Modules

BLOCKS: dict[str, Any] = {}
RESIDUALS: dict[str, Any] = {}
"""Modules by the names in a config's units."""


class ParetoformerConfig(PretrainedConfig):
    """The structure of a model.

    Args:
        units: path of the weights -> role, module and settings of the part; for a sub-layer, also its residual and the
            settings of the residual.
        steps: path, role, stack, and whether a head is tied, of the parts in the order they run. Parts at one path
            share weights.
        context: the longest sequence.
    """

    model_type = "paretoformer"
    keys_to_ignore_at_inference = ["past_key_values"]

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


class StateCache:
    """The states of a decoder's sub-layers after the tokens they have read."""

    is_compileable = False

    def __init__(self, states: Any, length: int) -> None:
        self.states, self.length = states, length

    def get_seq_length(self, *_: Any) -> int:
        """Tokens that were read, padding included."""
        return self.length

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Let row i continue what row `beam_idx[i]` has read."""
        self.states = tuple(tuple(tensor.index_select(0, beam_idx.to(tensor.device)) for tensor in state)
                            for state in self.states)


class PlainModel(nn.Module):
    """Runs the steps of a config on its units."""

    def __init__(self, units: dict[str, Any], steps: list[list[Any]]) -> None:
        super().__init__()
        self.steps = [ConfigStep(*step) for step in steps]
        self.gradient_checkpointing = False
        for path, unit in units.items():
            *containers, last = path.split(".")
            inside = self
            for name in containers:
                if name not in inside._modules:
                    inside.add_module(name, nn.Module())
                inside = inside.get_submodule(name)
            inside.add_module(last, build(unit))

    def forward(self, inputs: PassInputs, stack: str | None = None) -> PassResult:
        """Run all steps, or those of one stack."""
        steps = [step for step in self.steps if stack in (None, step.stack)]
        recompute = self.gradient_checkpointing and self.training and torch.is_grad_enabled()
        return drive(steps, Modules(self), inputs, recompute=recompute)

    def empty_states(self, batch: int) -> Any:
        """The decoder's states before the first token. Raises ValueError if a block cannot decode token by token."""
        like = next(self.parameters())
        states = []
        for step in self.steps:
            if step.role in SUBLAYERS and step.stack == "decoder":
                block = self.get_submodule(step.path).block
                if step.role != "ffn" and not hasattr(block, "state_shapes"):
                    raise ValueError(f"{type(block).__name__} cannot decode token by token; pass use_cache=False")
                shapes = block.state_shapes(batch, 0) if hasattr(block, "state_shapes") else ()
                states.append(tuple(like.new_zeros(shape) for shape in shapes))
        return tuple(states)


def build(unit: dict[str, Any]) -> nn.Module:
    """The module of a unit, its weights not yet set."""
    if unit["role"] == "norm":
        return make_norm(unit["module"], **unit["settings"])
    block = BLOCKS[unit["module"]](**unit["settings"])
    return RESIDUALS[unit["residual"]](block, **unit["around"]) if "residual" in unit else block


def label_loss(logits: Tensor, labels: Tensor, n_items: Any = None) -> Tensor:
    """The mean cross-entropy of labels, or the squared error of a single output.

    `n_items` counts the labels over all batches of a step, as a Trainer does.
    """
    flat = logits.float().reshape(-1, logits.shape[-1])
    labels, reduction = labels.reshape(-1).to(flat.device), "mean" if n_items is None else "sum"
    if flat.shape[-1] == 1:
        loss = F.mse_loss(flat[:, 0], labels.float(), reduction=reduction)
    else:
        loss = F.cross_entropy(flat, labels, ignore_index=IGNORE, reduction=reduction)
    return loss if n_items is None else loss / n_items


class ParetoformerModel(PreTrainedModel):
    """Returns the output of the head; for this class, features."""

    config_class = ParetoformerConfig
    base_model_prefix = "plain"
    supports_gradient_checkpointing = True

    def __init__(self, config: ParetoformerConfig) -> None:
        super().__init__(config)
        self.plain = PlainModel(config.units, config.steps)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, Table):  # derived from the settings and not stored
            module.values.copy_(module.compute())
        else:
            super()._init_weights(module)

    def get_input_embeddings(self) -> nn.Module:
        """The table of tokens."""
        return next(module for module in self.plain.modules() if isinstance(module, nn.Embedding))

    def get_output_embeddings(self) -> None:
        """None: a head that uses the table reads it where it is."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None,
                **others: Any) -> Any:
        return BaseModelOutput(last_hidden_state=self.run(input_ids, attention_mask, token_type_ids))

    def run(self, tokens: Tensor, mask: Tensor | None, types: Tensor | None) -> Tensor:
        """The whole model on whole sequences; masks may have any dtype, 0 for padding."""
        self.check_length(tokens.shape[1])
        return self.plain(PassInputs(tokens, mask=None if mask is None else mask != 0, types=types)).x

    def check_length(self, length: int) -> None:
        """Raises ValueError where a sequence is longer than the context."""
        if length > self.config.context:
            raise ValueError(f"a sequence of {length} tokens is longer than the context {self.config.context}; "
                             "truncate it, for example with tokenizer(..., truncation=True)")


class ParetoformerWriter(ParetoformerModel, GenerationMixin):
    """Reads and writes token by token."""

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # it has its own cache, for blocks that are not attention

    def read(self, tokens: Tensor, mask: Tensor | None, past: StateCache | None, keep: bool,
             inputs: dict[str, Any]) -> tuple[Tensor, StateCache | None]:
        """Logits of tokens that continue those in a cache, and the next cache, if one is kept.

        Positions count real tokens, so padding before a text changes nothing. `inputs` are additional inputs.
        """
        before, n = 0 if past is None else past.get_seq_length(), tokens.shape[1]
        self.check_length(before + n)
        mask, position = None if mask is None else mask != 0, before
        if mask is not None:
            position = (mask.long().cumsum(-1) - 1).clamp(min=0)[:, -n:]
        states = past.states if past is not None else self.plain.empty_states(tokens.shape[0]) if keep else None
        encoded = self.config.is_encoder_decoder
        given = {"target": tokens, "target_mask": mask} if encoded else {"tokens": tokens, "mask": mask}
        done = self.plain(PassInputs(**{"tokens": None, **given, **inputs}, position=position, states=states),
                          "decoder" if encoded else None)
        return done.x, StateCache(tuple(done.states), before + n) if keep else None

    def keeps(self, use_cache: bool | None, labels: Tensor | None) -> bool:
        """Whether a cache is returned: if requested; by default, without labels in eval mode."""
        return labels is None and not self.training if use_cache is None else bool(use_cache)


class ParetoformerForCausalLM(ParetoformerWriter):
    """Logits of every next token. Padding may precede or follow a text."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None,
                past_key_values: StateCache | None = None, labels: Tensor | None = None, use_cache: bool | None = None,
                num_items_in_batch: Any = None, **others: Any) -> Any:
        logits, cache = self.read(input_ids, attention_mask, past_key_values, self.keeps(use_cache, labels),
                                  {"types": token_type_ids})
        loss = None if labels is None else label_loss(logits[:, :-1], labels[:, 1:], num_items_in_batch)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=cache)

    def prepare_inputs_for_generation(self, input_ids: Tensor, past_key_values: StateCache | None = None,
                                      attention_mask: Tensor | None = None, use_cache: bool | None = True,
                                      **kwargs: Any) -> dict[str, Any]:
        """The tokens not read yet; for a text longer than the context, its end without a cache: positions change."""
        read = 0 if past_key_values is None else past_key_values.get_seq_length()
        if input_ids.shape[1] > self.config.context:
            read, past_key_values, use_cache = input_ids.shape[1] - self.config.context, None, False
            attention_mask = None if attention_mask is None else attention_mask[:, read:]
        return {"input_ids": input_ids[:, read:], "attention_mask": attention_mask,
                "past_key_values": past_key_values, "use_cache": use_cache}


class ParetoformerForMaskedLM(ParetoformerModel):
    """Logits of every token."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None,
                labels: Tensor | None = None, num_items_in_batch: Any = None, **others: Any) -> Any:
        logits = self.run(input_ids, attention_mask, token_type_ids)
        loss = None if labels is None else label_loss(logits, labels, num_items_in_batch)
        return MaskedLMOutput(loss=loss, logits=logits)


class ParetoformerForSequenceClassification(ParetoformerModel):
    """Logits of the classes."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None,
                labels: Tensor | None = None, num_items_in_batch: Any = None, **others: Any) -> Any:
        logits = self.run(input_ids, attention_mask, token_type_ids)
        loss = None if labels is None else label_loss(logits, labels, num_items_in_batch)
        return SequenceClassifierOutput(loss=loss, logits=logits)


class ParetoformerEncoder(nn.Module):
    """The encoder of a model, as `generate` calls it; the weights stay the model's."""

    main_input_name = "input_ids"

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.whole = (model,)  # in a tuple: a module of a module would be saved twice

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None,
                return_dict: bool = True, output_attentions: bool = False, output_hidden_states: bool = False) -> Any:
        return BaseModelOutput(last_hidden_state=self.whole[0].encode(input_ids, attention_mask, token_type_ids))


class ParetoformerForSeq2SeqLM(ParetoformerWriter):
    """Logits of every next token of the target."""

    def forward(self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None,
                token_type_ids: Tensor | None = None, decoder_input_ids: Tensor | None = None,
                decoder_attention_mask: Tensor | None = None, encoder_outputs: Any = None,
                past_key_values: StateCache | None = None, labels: Tensor | None = None, use_cache: bool | None = None,
                num_items_in_batch: Any = None, **others: Any) -> Any:
        if decoder_input_ids is None and labels is not None:
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        memory = self.encode(input_ids, attention_mask, token_type_ids) if encoder_outputs is None \
            else encoder_outputs[0]
        logits, cache = self.read(decoder_input_ids, decoder_attention_mask, past_key_values,
                                  self.keeps(use_cache, labels),
                                  {"memory": memory, "mask": None if attention_mask is None else attention_mask != 0})
        loss = None if labels is None else label_loss(logits, labels, num_items_in_batch)
        return Seq2SeqLMOutput(loss=loss, logits=logits, past_key_values=cache, encoder_last_hidden_state=memory)

    def encode(self, tokens: Tensor, mask: Tensor | None, types: Tensor | None) -> Tensor:
        """The encoder's output."""
        self.check_length(tokens.shape[1])
        return self.plain(PassInputs(tokens, mask=None if mask is None else mask != 0, types=types), "encoder").x

    def get_encoder(self, *_: Any, **kwargs: Any) -> nn.Module:
        """The module with which `generate` reads the source."""
        return ParetoformerEncoder(self)

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """The decoder's inputs in training: the labels shifted right by one."""
        start = torch.full_like(labels[:, :1], self.config.decoder_start_token_id)
        return torch.cat([start, labels[:, :-1].masked_fill(labels[:, :-1] == IGNORE, self.config.pad_token_id)], 1)

    def prepare_inputs_for_generation(self, decoder_input_ids: Tensor, past_key_values: StateCache | None = None,
                                      attention_mask: Tensor | None = None, encoder_outputs: Any = None,
                                      use_cache: bool | None = True, **kwargs: Any) -> dict[str, Any]:
        """The tokens of the target that were not read yet."""
        read = 0 if past_key_values is None else past_key_values.get_seq_length()
        return {"decoder_input_ids": decoder_input_ids[:, read:], "encoder_outputs": encoder_outputs,
                "attention_mask": attention_mask, "past_key_values": past_key_values, "use_cache": use_cache}
