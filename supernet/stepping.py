"""A decoder with its state, and the encoder before it, as functions of tensors only, as exporters need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from search_spaces.architecture import Architecture
from search_spaces.units import SUBLAYERS, Step, Unit, plan
from supernet.cache import decoder_steps, empty_states, state_shapes
from supernet.call import Call, State
from supernet.driver import PassInputs, drive
from supernet.parts import Modules
from supernet.transformer import Transformer

MOST_ROWS = 1 << 16
"""Maximum rows of a batch of dynamic size."""
GROWN = (2, 3)
"""Numbers of tokens whose states are compared: an axis that differs grows."""


@dataclass(frozen=True)
class StateSlot:
    """A tensor of a decoder's state.

    Args:
        step: of the sub-layer it belongs to.
        place: which of that sub-layer's tensors it is.
        axis: the one that grows with the number of tokens; None if none does.
    """

    step: Step
    place: int
    axis: int | None

    @property
    def of_source(self) -> bool:
        """Whether it is computed from the source, and never changes."""
        return self.step.unit.role == "cross"

    def shape(self, batch: int, past: int, source: int) -> tuple[int, ...]:
        """Its shape after `past` tokens, for a source of `source` tokens."""
        return state_shapes(self.step.unit, batch, source if self.of_source else past)[self.place]

    def most(self, past: int) -> int:
        """How long it is along its axis after `past` tokens: fewer, if it keeps the nearest tokens only."""
        return self.shape(1, past, past)[self.axis or 0]

    @property
    def least_past(self) -> int:
        """The fewest tokens after which it has the shape it keeps, if it does not grow from the second token on."""
        if self.axis is not None:
            return 0
        return next(past for past in range(GROWN[0] + 1) if self.shape(1, past, past) == self.shape(1, GROWN[0], 1))


def state_slots(arch: Architecture) -> tuple[StateSlot, ...]:
    """The state tensors of a decoder, in the order its sub-layers run.

    Raises:
        InputError: a block cannot decode token by token; it is named.
    """
    empty_states(arch, 1, torch.zeros(0))
    return tuple(_slots(arch))


def _slots(arch: Architecture) -> Iterator[StateSlot]:
    for step in decoder_steps(arch):
        if step.unit.role in SUBLAYERS:
            for place, axis in enumerate(grown_axes(step.unit)):
                yield StateSlot(step, place, axis)


def grown_axes(unit: Unit) -> list[int | None]:
    """For each state tensor of a sub-layer, the axis that grows with the number of tokens; None if none does."""
    shapes = (state_shapes(unit, 1, past) for past in GROWN)
    return [next((axis for axis, (a, b) in enumerate(zip(two, three)) if a != b), None) for two, three in zip(*shapes)]


class DecoderStep(nn.Module):
    """A decoder on some more tokens.

    Inputs are positional tensors, named by `input_names`: ids (batch, n), the mask (batch, past + n) of everything read
    so far, positions (batch, n) that count real tokens, the state of the past, and for seq2seq the mask and the state
    of the source. Outputs are logits (batch, n, vocabulary) and the new state of the past.

    Args:
        window: how many tokens the state holds; None for all. With a fixed window shapes never change: start with a
            fully masked one.

    Raises:
        InputError: a block cannot decode token by token; it is named.
    """

    def __init__(self, model: Transformer, window: int | None = None) -> None:
        super().__init__()
        self.arch, self.window, self.slots = model.arch, window, state_slots(model.arch)
        self.steps = decoder_steps(model.arch)
        self.part = _part(model, self.steps)

    @property
    def past(self) -> list[StateSlot]:
        """The state that changes with every token."""
        return [slot for slot in self.slots if not slot.of_source]

    @property
    def source(self) -> list[StateSlot]:
        """The state computed from the source."""
        return [slot for slot in self.slots if slot.of_source]

    @property
    def input_names(self) -> list[str]:
        """Names of its inputs, in order."""
        masks = ["encoder_attention_mask"] if self.arch.family == "seq2seq" else []
        return ["input_ids", "attention_mask", "position_ids", *(f"past.{i}" for i in range(len(self.past))), *masks,
                *(f"source.{i}" for i in range(len(self.source)))]

    @property
    def output_names(self) -> list[str]:
        """Names of its outputs, in order."""
        return ["logits", *(f"present.{i}" for i in range(len(self.past)))]

    def forward(self, tokens: Tensor, mask: Tensor, position: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        rest = iter(tensors)
        real, past = mask != 0, list(islice(rest, len(self.past)))
        source_mask = next(rest) != 0 if self.arch.family == "seq2seq" else None
        source = list(rest)
        states = self._states(iter(past), iter(source))
        inputs = PassInputs(tokens, mask=real, position=position, states=states) if source_mask is None else \
            PassInputs(None, tokens, source_mask, real, position=position, states=states)
        done = drive(self.steps, Modules(self.part), inputs)
        now = [tensor for state in done.states for tensor in state]
        return (done.x, *(self._kept(slot, tensor) for slot, tensor in zip(self.slots, now) if not slot.of_source))

    def _states(self, past: Iterator[Tensor], source: Iterator[Tensor]) -> list[tuple[Tensor, ...]]:
        """The tensors by sub-layer; one that remembers nothing has none."""
        steps = [step for step in self.steps if step.unit.role in SUBLAYERS]
        return [tuple(islice(source if step.unit.role == "cross" else past, len(state_shapes(step.unit, 1, 1))))
                for step in steps]

    def _kept(self, slot: StateSlot, tensor: Tensor) -> Tensor:
        if self.window is None or slot.axis is None:
            return tensor
        most = slot.most(self.window)
        return tensor.narrow(slot.axis, tensor.shape[slot.axis] - most, most)

    def example(self, batch: int, n: int, past: int, source: int) -> tuple[Tensor, ...]:
        """Inputs of these sizes; nothing is masked."""
        position = torch.arange(past, past + n).expand(batch, n).contiguous()
        masks = [torch.ones(batch, source, dtype=torch.long)] if self.arch.family == "seq2seq" else []
        states, remembered = ([torch.randn(slot.shape(batch, past, source)) for slot in slots]
                              for slots in (self.past, self.source))
        return (torch.zeros(batch, n, dtype=torch.long), torch.ones(batch, past + n, dtype=torch.long), position,
                *states, *masks, *remembered)

    def bounds(self) -> dict[int, int]:
        """Exclusive upper bounds of inputs other than tokens (masks and positions), by index."""
        masks = {3 + len(self.past): 2} if self.arch.family == "seq2seq" else {}
        return {1: 2, 2: self.arch.context, **masks}

    def traced(self) -> tuple[Tensor, ...]:
        """Inputs to trace it with if sizes are dynamic: all of them differ, and none is 1."""
        return self.example(2, 3, 4, 5)

    def open_axes(self) -> dict[str, Any]:
        """The dynamic sizes, as torch's exporters take them."""
        batch, n = Dim("batch", min=1, max=MOST_ROWS), Dim("length", min=1, max=self.arch.context)
        longest = self.arch.context + GROWN[1]
        source = Dim("source", min=1, max=longest)
        masks = [{0: batch, 1: source}] if self.arch.family == "seq2seq" else []
        sizes = {most: Dim("past" if most == longest else f"past_{most}", min=1, max=most)
                 for most in {slot.most(longest) for slot in self.past if slot.axis is not None}}
        states, remembered = (
            [{0: batch} if slot.axis is None else
             {0: batch, slot.axis: source if slot.of_source else sizes[slot.most(longest)]} for slot in slots]
            for slots in (self.past, self.source))
        return {"tokens": {0: batch, 1: n}, "mask": {0: batch, 1: Dim.AUTO}, "position": {0: batch, 1: n},
                "tensors": (*states, *masks, *remembered)}


class SourceStep(nn.Module):
    """An encoder that returns the states of the decoder's sub-layers for a source: the last inputs of `DecoderStep`."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.arch = model.arch
        self.encoder = [step for step in plan(model.arch) if step.stack == "encoder"]
        self.cross = [step for step in decoder_steps(model.arch) if step.unit.role == "cross"]
        self.part = _part(model, [*self.encoder, *self.cross])

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Ids, the mask, and token types where the architecture has them."""
        tokens, given, *types = tensors
        parts, mask = Modules(self.part), given != 0
        memory = drive(self.encoder, parts, PassInputs(tokens, mask=mask, types=types[0] if types else None)).x
        states: list[Tensor] = []
        for step in self.cross:
            state = State(tuple(memory.new_zeros(shape) for shape in state_shapes(step.unit, tokens.shape[0], 0)))
            streams = parts.residual(step).enter(memory[:, :1])  # type: ignore[operator]
            parts.call(step, streams, Call(memory=memory, memory_mask=mask, state=state, target=True))
            states += state.tensors
        return tuple(states)


def _part(model: nn.Module, steps: Iterable[Step]) -> nn.Module:
    """The modules of some steps at their paths, and nothing else, so that no other weights are exported."""
    part = nn.Module()
    for path in dict.fromkeys(step.path for step in steps):
        *containers, last = path.split(".")
        inside = part
        for name in containers:
            if name not in inside._modules:
                inside.add_module(name, nn.Module())
            inside = inside.get_submodule(name)
        inside.add_module(last, model.get_submodule(path))
    return part
