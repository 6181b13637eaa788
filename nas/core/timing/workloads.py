"""Workloads: stacks of distinct copies of a unit, whole plain models, and the empty model.

Every workload is a module that takes positional tensors and returns tensors, so that any runtime can run it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hardware_profiles.profile import Conditions
from hardware_profiles.table import unit_text
from nas.core.timing.decoding import DecodingModel, DecodingUnits, ExportedUnits, remembered, unit_state
from search_spaces import Architecture
from search_spaces.units import LENGTHS, SUBLAYERS, Unit, plan
from supernet.build import build_unit, fresh
from supernet.cache import decoder_steps
from supernet.call import Call
from supernet.driver import run_unit
from supernet.stepping import DecoderStep
from supernet.transformer import Transformer

SEED = 0


@dataclass(frozen=True)
class Workload:
    """Something to time.

    Args:
        what: a unit in `copies` copies, an architecture as a whole, or the width of the empty model
            (0 for one that takes tokens).
    """

    phase: str
    what: Unit | Architecture | int
    copies: int = 1

    @property
    def name(self) -> str:
        """A short name that no other workload has."""
        if isinstance(self.what, Architecture):
            return f"{self.phase}-model-{self.what.key[:16]}"
        if isinstance(self.what, Unit):
            digest = hashlib.sha256(unit_text(self.what).encode()).hexdigest()[:16]
            return f"{self.phase}-{self.what.role}-{digest}-x{self.copies}"
        return f"{self.phase}-empty-{self.what}"

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of its blocks."""
        if isinstance(self.what, Architecture):
            return frozenset(step.unit.block.kind for step in plan(self.what))
        return frozenset({self.what.block.kind} if isinstance(self.what, Unit) else ())

    def __str__(self) -> str:
        return str(self.what) if isinstance(self.what, Unit) else self.name

    def build(self, conditions: Conditions, decoder: str = "") -> tuple[nn.Module, tuple[Tensor, ...]]:
        """The module in eval mode, and inputs it takes.

        Args:
            decoder: how units and models decode: "open" and "fixed" are the decoders that `nas export` writes, with
                caches of any or of one size; by default they decode as `generate` does.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            if isinstance(self.what, Architecture):
                module, inputs = _whole(self.model(self.what), self.phase, conditions, decoder)
            elif isinstance(self.what, Unit):
                module, inputs = _stack(self.what, self.phase, self.copies, conditions, decoder)
            else:
                module, inputs = _Empty(), _empty_inputs(self.what, self.phase, conditions)
        return module.eval().requires_grad_(False), inputs

    def model(self, arch: Architecture) -> Transformer:
        """The plain model of an architecture, with weights for timing, whose values hardly matter."""
        return Transformer(arch, seed=SEED)


def described(module: nn.Module, inputs: Sequence[Tensor], high: int) -> list[dict[str, Any]]:
    """Inputs of a module as a job names them; `high` bounds tokens, and a decoder bounds masks and positions itself."""
    bounds = module.bounds() if isinstance(module, (DecoderStep, ExportedUnits)) else {}
    return [{"dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape),
             **({} if tensor.is_floating_point() else {"high": bounds.get(i, high)})}
            for i, tensor in enumerate(inputs)]


def greatest_token(what: Unit | Architecture | int) -> int:
    """Number of different token ids that the inputs may have."""
    if isinstance(what, Architecture):
        return what.vocab_size
    return int(dict(what.facts).get("vocab_size", 2)) if isinstance(what, Unit) else 2


class _Empty(nn.Module):
    """The minimal model: returns its input."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 1


class _Stack(nn.Module):
    """Sub-layers or norms one after the other."""

    def __init__(self, role: str, units: list[nn.Module]) -> None:
        super().__init__()
        self.role, self.units = role, nn.ModuleList(units)

    def forward(self, x: Tensor, *memory: Tensor) -> Tensor:
        call = Call(memory=memory[0] if memory else None)
        for unit in self.units:
            x, _ = run_unit(self.role, unit, x, call, {})
        return x


class _SideBySide(nn.Module):
    """Units whose outputs cannot be their inputs, such as embeddings and heads, all run on the same input."""

    def __init__(self, role: str, units: list[nn.Module]) -> None:
        super().__init__()
        self.role, self.units = role, nn.ModuleList(units)
        shapes: list[dict[str, tuple[int, ...]]] = [getattr(unit, "tied_shapes", dict)() for unit in units]
        self.names = [list(entry) for entry in shapes]  # the embedding's tensors that a tied head uses
        self.tied = nn.ModuleList(nn.ParameterList(torch.randn(shape) * 0.02 for shape in entry.values())
                                  for entry in shapes)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(run_unit(self.role, unit, x, Call(), dict(zip(names, tied.parameters())))[0]
                     for unit, names, tied in zip(self.units, self.names, self.tied))


class _Whole(nn.Module):
    """A plain model that takes its inputs by position."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, *tokens: Tensor) -> Tensor:
        return self.model(*tokens)


def _stack(unit: Unit, phase: str, copies: int, conditions: Conditions,
           decoder: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    units = [fresh(build_unit(unit)) for _ in range(copies)]
    length = unit.length(conditions.length) if phase == "prefill" else 1
    if unit.role == "embedding":
        vocabulary = greatest_token(unit)
        return _SideBySide(unit.role, units), (torch.randint(vocabulary, (conditions.batch, length)),)
    width = int(dict(unit.facts)["width"])
    x = torch.randn(conditions.batch, length, width)
    if unit.role == "head" or unit.role in LENGTHS:
        return _SideBySide(unit.role, units), (x,)
    if unit.role not in SUBLAYERS or (phase == "decode" and unit.role == "ffn"):
        return _Stack(unit.role, units), (x,)
    if phase == "decode" and decoder:
        step = ExportedUnits(unit, units, conditions.past if decoder == "fixed" else None)
        return step, step.example(conditions.batch, 1, remembered(unit, conditions))
    if phase == "decode":
        states = [unit_state(unit, conditions) for _ in units]
        tensors = [tensor for state in states for tensor in state]
        return DecodingUnits(units, conditions.past, len(states[0])), (x, *tensors)
    memory = (torch.randn(conditions.batch, conditions.length, width),) if unit.role == "cross" else ()
    return _Stack(unit.role, units), (x, *memory)


def _whole(model: Transformer, phase: str, conditions: Conditions,
           decoder: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    arch = model.arch
    if phase == "prefill":
        n_inputs = 2 if arch.family == "seq2seq" else 1
        return _Whole(model), tuple(torch.randint(arch.vocab_size, (conditions.batch, conditions.length))
                                    for _ in range(n_inputs))
    if decoder:
        step = DecoderStep(model, conditions.past if decoder == "fixed" else None)
        return step, step.example(conditions.batch, 1, conditions.past, conditions.length)
    states = [unit_state(step.unit, conditions) for step in decoder_steps(arch) if step.unit.role in SUBLAYERS]
    token = torch.randint(arch.vocab_size, (conditions.batch, 1))
    return (DecodingModel(model, conditions.past, [len(state) for state in states]),
            (token, *(tensor for state in states for tensor in state)))


def _empty_inputs(width: int, phase: str, conditions: Conditions) -> tuple[Tensor, ...]:
    length = conditions.length if phase == "prefill" else 1
    if width == 0:
        return (torch.zeros(conditions.batch, length, dtype=torch.long),)
    return (torch.randn(conditions.batch, length, width),)
