"""The plain model of one architecture, and the one forward pass that it and the supernet share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from search_spaces import kinds
from search_spaces.architecture import Architecture
from search_spaces.errors import InputError
from search_spaces.units import SUBLAYERS, Step, plan
from supernet.build import build_on_meta, fresh, set_dropout
from supernet.call import Call, Record
from supernet.parts import Modules, Parts
from supernet.writer import Writer

OUTPUTS = ("logits", "features", "attention", "aux_loss")


class Transformer(nn.Module, Writer):
    """The plain model of one architecture, freshly initialised.

    `model(tokens)` for lm and encoder, `model(source, target)` for seq2seq; see `forward`. `generate`, and `start` and
    `decode` which it is made of, read and write token by token.

    Args:
        dropout: rate of every dropout while training.
        seed: makes the initialisation repeatable; None draws from torch's global generator.
    """

    checkpointing: bool = False
    """Whether sub-layers are recomputed in the backward pass instead of kept."""

    def __init__(self, arch: Architecture, *, dropout: float = 0.0, seed: int | None = None) -> None:
        super().__init__()
        self.arch = arch
        for step in plan(arch):
            self._attach(step)
        set_dropout(self, dropout)
        device = torch.get_default_device()
        if device.type != "meta":
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
        """Register the unit under its path, once however many layers share it."""
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
            mask: (batch, n), true where a real token stands; None where all are real.
            target_mask: as `mask`, of the target.
            types: (batch, n) token types, 0 by default.
            outputs: any of `logits`; `features`, the states after every layer; `attention`, the maps
                of every layer; `aux_loss`, the sum of what blocks add to the loss.
            arch: what to run instead of its own architecture: the same with layers left out.
        """
        return run(arch or self.arch, self.parts(), self.checkpointing and torch.is_grad_enabled(), tokens, target,
                   mask, target_mask, types, outputs)

    def parts(self) -> Parts:
        """Its modules."""
        return Modules(self)


def run(arch: Architecture, parts: Parts, checkpointing: bool, tokens: Tensor, target: Tensor | None,
        mask: Tensor | None, target_mask: Tensor | None, types: Tensor | None, outputs: Sequence[str] | None) -> Any:
    """The forward pass; arguments as `Transformer.forward`."""
    wanted = ("logits",) if outputs is None else tuple(outputs)
    _check_inputs(arch, tokens, target, mask, target_mask, types, wanted)
    records: list[Record] = []
    features: list[Tensor] = []
    keep_record = bool({"attention", "aux_loss"} & set(wanted))
    x, call, embedding = tokens, Call(mask=mask), plan(arch)[0]
    for step in plan(arch):
        role = step.unit.role
        if role == "embedding":
            if step.stack == "decoder" and target is not None:
                call = Call(mask=target_mask, memory=x, memory_mask=mask)
                x = parts.call(step, target, None, True)
            else:
                x = parts.call(step, tokens, types, False)
            embedding = step
        elif role in SUBLAYERS:
            if role == "mixer" and keep_record:
                records.append(Record())
                call = replace(call, record=records[-1])
            x = _sublayer(parts, step, x, call, checkpointing)
            if role == "ffn":
                features.append(x)
        elif role == "norm":
            x = parts.call(step, x)
        elif "logits" in wanted:
            tied = parts.tensors(embedding) if kinds.get(step.unit.block.kind).ties else {}
            x = parts.call(step, x, call.mask, tied)
    if outputs is None:
        return x
    losses = [loss for record in records for loss in record.aux_loss]
    found = {"logits": x, "features": tuple(features), "attention": tuple(tuple(r.attention) for r in records),
             "aux_loss": torch.stack(losses).sum() if losses else x.new_zeros(())}
    return {name: found[name] for name in wanted}


def _check_inputs(arch: Architecture, tokens: Tensor, target: Tensor | None, mask: Tensor | None,
                  target_mask: Tensor | None, types: Tensor | None, wanted: tuple[str, ...]) -> None:
    for ids in (tokens,) if target is None else (tokens, target):
        if ids.shape[1] > arch.context:
            says = f"a sequence of {ids.shape[1]} tokens is longer than the context {arch.context}"
            raise InputError("model input", says)
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


def _sublayer(parts: Parts, step: Step, x: Tensor, call: Call, checkpointing: bool) -> Tensor:
    if not checkpointing:
        return parts.call(step, x, call)

    def recomputed(x: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        record = Record() if call.record else None  # blocks append: the second run must not append again
        y = parts.call(step, x, replace(call, record=record))
        return (y, record.attention, record.aux_loss) if record else (y, [], [])

    y, attention, aux_loss = checkpoint(recomputed, x, use_reentrant=False)
    if call.record:
        call.record.attention.extend(attention)
        call.record.aux_loss.extend(aux_loss)
    return y
