"""The cache of a model for decoding a sequence piece by piece."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from search_spaces.architecture import Architecture
from search_spaces.errors import InputError
from search_spaces.units import SUBLAYERS, Step, Unit, plan
from supernet.build import build_on_meta
from supernet.call import Call, State
from supernet.driver import run_unit

WHERE = "decoding"


@dataclass(frozen=True, eq=False)
class Cache:
    """The decoding state of a batch of sequences. Immutable: decoding returns a new one.

    Args:
        batch: number of sequences.
        position: number of tokens read of each.
        states: the state of each sub-layer of the decoder, in execution order. Layers that share weights have separate
            states. The first axis of each tensor is the batch.
        memory: (batch, source length, width), the encoder's output, for seq2seq.
        memory_mask: (batch, source length), true for real tokens; None if all are real.
    """

    batch: int
    position: int
    states: tuple[tuple[Tensor, ...], ...]
    memory: Tensor | None = None
    memory_mask: Tensor | None = None


class OneUnit(nn.Module):
    """A sub-layer in decoding, as a function of tensors only: x, *state -> y, *state.

    For exporters. The shapes of the state are `state_shapes`; source tokens of cross-attention are all real.

    Args:
        sublayer: the module of a `mixer`, `cross` or `ffn` unit.
        position: number of tokens before x.
    """

    def __init__(self, sublayer: nn.Module, position: int) -> None:
        super().__init__()
        self.sublayer, self.position = sublayer, position

    def forward(self, x: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        held = State(state)
        y, _ = run_unit(SUBLAYERS[0], self.sublayer, x, Call(state=held, position=self.position), {})
        return (y, *held.tensors)


def decoder_steps(arch: Architecture) -> list[Step]:
    """The steps that read and write target tokens."""
    return [step for step in plan(arch) if step.stack == "decoder"]


def state_shapes(unit: Unit, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
    """The state shapes of a sub-layer after `past` tokens; for cross-attention, for a source of that length.

    Raises:
        InputError: a block that mixes tokens does not declare its state.
    """
    shapes = getattr(_module(unit).block, "state_shapes", None)
    if shapes is not None:
        return tuple(tuple(shape) for shape in shapes(batch, past))
    if unit.role == "ffn":
        return ()
    raise InputError(WHERE, f"the kind {unit.block.kind} cannot decode token by token: its module has no state_shapes "
                            "(see supernet/blocks/README.md)")


def empty_states(arch: Architecture, batch: int, like: Tensor) -> tuple[tuple[Tensor, ...], ...]:
    """The states before the first token: zeros, with the dtype and device of `like`.

    Raises:
        InputError: a block of the architecture cannot decode token by token.
    """
    steps = decoder_steps(arch)
    takes = inspect.signature(_module(steps[0].unit).forward).parameters
    if "position" not in takes:
        raise InputError(WHERE, f"the embedding {steps[0].unit.block.kind} cannot decode token by token: its forward "
                                "takes no position (see supernet/blocks/README.md)")
    return tuple(tuple(torch.zeros(shape, dtype=like.dtype, device=like.device)
                       for shape in state_shapes(step.unit, batch, 0))
                 for step in steps if step.unit.role in SUBLAYERS)


@lru_cache(maxsize=4096)
def _module(unit: Unit) -> nn.Module:
    return build_on_meta(unit)
