"""Runs a plan: one function runs a unit by its role, one loop runs the steps.

The plain model, the supernet, decoding, the encoder alone, the Hugging Face modelling file, the MAC counter and the
profiler all run units through this file: no other file says how a role is run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from search_spaces.units import LENGTHS, SUBLAYERS
from supernet.call import Call, Record, State
from supernet.parts import PlannedStep, UnitParts


@dataclass(frozen=True)
class PassInputs:
    """Inputs of a pass over a plan, or over one of its stacks.

    Args:
        tokens: (batch, n) ids; of the source for seq2seq. None if only the decoder of a seq2seq model runs.
        target: (batch, m) ids the decoder reads, for seq2seq.
        mask: (batch, n), true for real tokens; None if all are real. With states, tokens that came before
            are its first ones.
        target_mask: as `mask`, of the target.
        types: (batch, n) token types.
        memory: the encoder's output, where only the decoder runs.
        position: how many tokens came before these; (batch, n) their positions, where those of rows differ.
        states: for decoding, the state of each sub-layer in execution order; None for whole sequences.
    """

    tokens: Tensor | None
    target: Tensor | None = None
    mask: Tensor | None = None
    target_mask: Tensor | None = None
    types: Tensor | None = None
    memory: Tensor | None = None
    position: int | Tensor = 0
    states: Sequence[tuple[Tensor, ...]] | None = None

    def enter(self, stack: str, memory: Tensor | None) -> tuple[Any, Call]:
        """The ids that a stack reads, and the context of its sub-layers."""
        if stack == "decoder" and self.target is not None:
            return self.target, Call(mask=self.target_mask, memory=memory, memory_mask=self.mask, target=True,
                                     position=self.position, shared={})
        return self.tokens, Call(mask=self.mask, types=self.types, position=self.position, shared={})


@dataclass
class PassResult:
    """Result of a pass.

    Args:
        x: the output of the last step that ran.
        features: the states after every layer.
        records: the records of the blocks of each layer, if kept.
        losses: what blocks add to the training loss, where losses were kept.
        states: the new state of each sub-layer, for decoding.
    """

    x: Any = None
    features: list[Tensor] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    losses: list[Tensor] = field(default_factory=list)
    states: list[tuple[Tensor, ...]] = field(default_factory=list)


def run_unit(role: str, unit: nn.Module, x: Tensor, call: Call, tied: Mapping[str, Tensor]) -> tuple[Tensor, Call]:
    """Run one unit; returns the hidden states and context for the next one.

    Args:
        unit: its plain module.
        x: hidden states (batch, n, width); for an embedding the ids (batch, n).
        tied: the embedding's tensors by name, for a head that ties.
    """
    if role not in SUBLAYERS:
        return _run_role(role, unit, x, call, tied)
    call = replace(call, shared=_placeholders(unit, x, call)) if call.shared is None else call
    streams, call = _run_role(role, unit, unit.enter(x), call, tied)  # type: ignore[operator]
    return unit.leave(streams), call  # type: ignore[operator]


def _placeholders(unit: nn.Module, x: Tensor, call: Call) -> dict[str, tuple[Tensor, ...]]:
    """Zeros in place of what earlier layers share, for a unit that is counted or timed alone."""
    shapes = getattr(unit.block, "shared_shapes", None)
    if shapes is None:
        return {}
    read = call.mask.shape[1] if call.mask is not None else call.position + x.shape[1]
    return {name: tuple(x.new_zeros(shape) for shape in sizes) for name, sizes in shapes(x.shape[0], read).items()}


def _run_role(role: str, unit: Callable[..., Any], x: Any, call: Call, tied: Mapping[str, Tensor]) -> tuple[Any, Call]:
    """As `run_unit`, but a sub-layer takes and returns the streams of its residual."""
    if role in SUBLAYERS:
        return unit(x, call), call
    if role == "embedding":
        before = (call.position,) if isinstance(call.position, Tensor) or call.position else ()
        return unit(x, call.types, call.target, *before), call
    if role in LENGTHS:
        x, call = unit(x, call)
        return x, call
    if role == "head":
        return unit(x, call.mask, tied), call
    return unit(x), call


def drive(steps: Iterable[PlannedStep], parts: UnitParts, inputs: PassInputs, *, head: bool = True,
          keep_records: bool = False, keep_losses: bool = False, recompute: bool = False) -> PassResult:
    """Run steps in their order.

    Args:
        head: whether the head runs, too.
        keep_records: whether blocks report attention maps.
        keep_losses: whether blocks report losses of their own.
        recompute: whether to recompute sub-layers in the backward pass (activation checkpointing).
    """
    done, remembered = PassResult(inputs.memory), iter(inputs.states or ())
    call, embedding = Call(), None
    residual: Any = None  # residual whose streams x contains; None for plain hidden states
    for step in steps:
        before, residual = residual, parts.residual(step) if step.role in SUBLAYERS else None
        if type(before) is not type(residual):
            done.x = _switched(done.x, before, residual)
        if step.role == "embedding":
            done.x, call = inputs.enter(step.stack, done.x)
            call = replace(call, losses=done.losses) if keep_losses else call
            embedding = step
        elif step.role == "head" and not head:
            continue
        elif step.role == "mixer" and keep_records:
            done.records.append(Record())
            call = replace(call, record=done.records[-1])
        if step.role in SUBLAYERS and inputs.states is not None:
            call = replace(call, state=State(next(remembered)))
        run = _recomputed if recompute and step.role in SUBLAYERS else _run
        tied = parts.tensors(embedding) if step.ties and embedding is not None else {}
        done.x, call = run(parts, step, done.x, call, tied)
        if step.role in SUBLAYERS and call.state is not None:
            done.states.append(call.state.tensors)
        if step.role == "ffn":
            done.features.append(residual.leave(done.x))
    done.x = _switched(done.x, residual, None)
    return done


def _switched(x: Any, before: Any, residual: Any) -> Any:
    """Convert from the streams of one residual to those of another; None means plain hidden states."""
    x = x if before is None else before.leave(x)
    return x if residual is None else residual.enter(x)


def _run(parts: UnitParts, step: PlannedStep, x: Any, call: Call, tied: Mapping[str, Tensor]) -> tuple[Any, Call]:
    return _run_role(step.role, lambda *given: parts.call(step, *given), x, call, tied)


def _recomputed(parts: UnitParts, step: PlannedStep, x: Any, call: Call,
                tied: Mapping[str, Tensor]) -> tuple[Any, Call]:
    """As `_run` with activation checkpointing: keeps only the input, and the backward pass recomputes the rest."""

    before = dict(call.shared or {})  # the second run must not find what this layer and later ones share

    def run(x: Any) -> tuple[Any, list[Tensor], list[Tensor], dict[str, tuple[Tensor, ...]]]:
        record = Record() if call.record else None  # blocks append: the second run must not append again
        losses: list[Tensor] | None = None if call.losses is None else []
        shared = dict(before)
        y, _ = _run(parts, step, x, replace(call, record=record, losses=losses, shared=shared), tied)
        return y, record.attention if record else [], losses or [], shared

    y, attention, losses, shared = checkpoint(run, x, use_reentrant=False)
    if call.shared is not None:
        call.shared.update(shared)
    if call.record:
        call.record.attention.extend(attention)
    if call.losses is not None:
        call.losses.extend(losses)
    return y, call
