"""The plain model of one architecture, and the forward pass that it shares with the supernet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from search_spaces.architecture import Architecture
from search_spaces.errors import InputError
from search_spaces.units import Step, plan
from supernet.build import build_on_meta, fresh, set_dropout
from supernet.driver import PassInputs, drive
from supernet.generation import DecodingMixin
from supernet.parts import Modules, UnitParts
from supernet.room import check_room, tensor_bytes

OUTPUTS = ("logits", "features", "attention", "aux_loss")


class Transformer(nn.Module, DecodingMixin):
    """The plain model of one architecture, freshly initialised.

    `model(tokens)` for lm and encoder, `model(source, target)` for seq2seq; see `forward`. `generate`, and its parts
    `start` and `decode`, decode token by token.

    Args:
        dropout: dropout rate while training.
        seed: makes the initialisation repeatable; None draws from torch's global generator.
    """

    checkpointing: bool = False
    """Whether to recompute sub-layers in the backward pass (activation checkpointing)."""

    def __init__(self, arch: Architecture, *, dropout: float = 0.0, seed: int | None = None) -> None:
        super().__init__()
        self.arch = arch
        for step in plan(arch):
            self._attach(step)
        set_dropout(self, dropout)
        device = torch.get_default_device()
        if device.type != "meta":
            needed = tensor_bytes((*self.parameters(), *self.buffers()))
            check_room(f"model {arch.key[:12]}", needed, "its weights and tables", device,
                       "use a smaller width, vocab_size or context")
            self.to_empty(device=device)
            fresh(self, None if seed is None else torch.Generator(device).manual_seed(seed))

    @classmethod
    def from_pretrained(cls, folder: str | Path, *, dropout: float = 0.0) -> Transformer:
        """The model of a folder with `architecture.json` and `model.safetensors`, in eval mode.

        Raises:
            InputError: a file is missing or damaged, or the two do not fit each other.
        """
        from supernet.pretrained import load_model  # which builds models

        return load_model(Path(folder), dropout)

    def _attach(self, step: Step) -> None:
        """Register the unit under its path, once even if several layers share it."""
        *containers, last = step.path.split(".")
        inside: nn.Module = self
        for name in containers:
            if name not in inside._modules:
                inside.add_module(name, nn.Module())
            inside = inside.get_submodule(name)
        if last not in inside._modules:
            inside.add_module(last, build_on_meta(step.unit))

    def forward(self, tokens: Tensor, target: Tensor | None = None, *, mask: Tensor | None = None,
                target_mask: Tensor | None = None, types: Tensor | None = None,
                outputs: Sequence[str] | None = None, arch: Architecture | None = None) -> Any:
        """Logits, or a dict of what `outputs` names.

        Args:
            tokens: (batch, n) ids; of the source for seq2seq.
            target: (batch, m) ids the decoder reads, for seq2seq.
            mask: (batch, n), true for real tokens; None if all are real.
            target_mask: as `mask`, of the target.
            types: (batch, n) token types, 0 by default.
            outputs: any of `logits`; `features`, the states after every layer; `attention`, the maps
                of every layer; `aux_loss`, the sum of what blocks add to the loss.
            arch: the architecture to run instead of its own: the same with layers dropped.
        """
        return run(arch or self.arch, self.parts(), self.checkpointing and torch.is_grad_enabled(), tokens, target,
                   mask, target_mask, types, outputs)

    def parts(self) -> UnitParts:
        """Its modules."""
        return Modules(self)


def run(arch: Architecture, parts: UnitParts, checkpointing: bool, tokens: Tensor, target: Tensor | None,
        mask: Tensor | None, target_mask: Tensor | None, types: Tensor | None, outputs: Sequence[str] | None) -> Any:
    """The forward pass; arguments as `Transformer.forward`."""
    wanted = ("logits",) if outputs is None else tuple(outputs)
    _check_inputs(arch, tokens, target, mask, target_mask, types, wanted)
    done = drive(plan(arch), parts, PassInputs(tokens, target, mask, target_mask, types), head="logits" in wanted,
                 keep_records="attention" in wanted, keep_losses="aux_loss" in wanted, recompute=checkpointing)
    if outputs is None:
        return done.x
    results = {"logits": done.x, "features": tuple(done.features),
               "attention": tuple(tuple(record.attention) for record in done.records),
               "aux_loss": torch.stack(done.losses).sum() if done.losses else done.x.new_zeros(())}
    return {name: results[name] for name in wanted}


def _check_inputs(arch: Architecture, tokens: Tensor, target: Tensor | None, mask: Tensor | None,
                  target_mask: Tensor | None, types: Tensor | None, wanted: tuple[str, ...]) -> None:
    for ids in (tokens,) if target is None else (tokens, target):
        if ids.shape[1] > arch.context:
            message = f"a sequence of {ids.shape[1]} tokens is longer than the context {arch.context}"
            raise InputError("model input", message)
    if (arch.family == "seq2seq") != (target is not None):
        needs = "a source and a target" if arch.family == "seq2seq" else "one sequence"
        raise InputError("model input", f"the family {arch.family} takes {needs}")
    if target is None and target_mask is not None:
        raise InputError("model input", f"the family {arch.family} has no target to mask")
    if types is not None and not arch.n_types:
        raise InputError("model input", "token types were given to an architecture with n_types 0")
    for name, given in (("mask", mask), ("target_mask", target_mask)):
        if given is not None and given.dtype != torch.bool:
            raise InputError("model input", f"{name} has type {given.dtype}; allowed: bool, true for real tokens")
    unknown = [name for name in wanted if name not in OUTPUTS]
    if unknown:
        raise InputError("outputs", f"unknown {unknown[0]!r}; allowed: {', '.join(OUTPUTS)}")
