"""Costs of an architecture: parameters, multiply-adds, bytes; counted from modules, not from formulas."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from nas.core.macs import unit_macs
from search_spaces import registry as kinds
from search_spaces.architecture import Architecture
from search_spaces.errors import InputError
from search_spaces.units import Step, Unit, plan
from supernet.store import unit_entries


@dataclass(frozen=True)
class Cost:
    """The cost of one architecture.

    Args:
        params: trainable parameters; shared and tied ones count once.
        embedding_params: those of embeddings and of heads with token logits.
        macs: multiply-adds of one sequence.
        weight_bytes: what the stored tensors take in float32, buffers included.
    """

    params: int
    embedding_params: int
    macs: int
    weight_bytes: int


@dataclass(frozen=True)
class UnitCost:
    """The cost of one step; params are 0 where an earlier step has the same weights."""

    step: Step
    params: int
    macs: int


@dataclass(frozen=True)
class Convention:
    """A published convention of counting multiply-adds.

    Args:
        help: one line for the reference.
        ends: whether embeddings and heads count.
        biases: whether adding a bias counts.
        prefixes: whether a decoder is run again for every prefix of the target.
    """

    help: str
    ends: bool = True
    biases: bool = False
    prefixes: bool = False


CONVENTIONS = {
    "plain": Convention("every unit once over the whole sequence"),
    "lite": Convention("layers only: no embedding, no output layer (Lite Transformer)", ends=False),
    "mobilebert": Convention("layers only; the paper reports twice this number as FLOPs", ends=False),
    "delight": Convention("bias adds counted, decoder run on every prefix (DeLighT)", biases=True, prefixes=True),
}


def count(arch: Architecture, seq_len: int = 128, target_len: int | None = None, convention: str = "plain") -> Cost:
    """The cost of an architecture.

    Args:
        seq_len: tokens of the sequence; of the source for seq2seq.
        target_len: tokens of the target for seq2seq; by default `seq_len`.
        convention: a name in `CONVENTIONS`.

    Raises:
        InputError: a length or the convention is not allowed, or a unit cannot be counted.
    """
    costs = unit_costs(arch, seq_len, target_len, convention)
    ends = [cost.params for cost in costs if _about_words(cost.step)]
    stored = {cost.step.path: cost.step.unit for cost in costs}
    return Cost(
        params=sum(cost.params for cost in costs),
        embedding_params=sum(ends),
        macs=sum(cost.macs for cost in costs),
        weight_bytes=sum(entry.numel * entry.dtype.itemsize for unit in stored.values()
                         for entry in unit_entries(unit)),
    )


def unit_costs(arch: Architecture, seq_len: int = 128, target_len: int | None = None,
               convention: str = "plain") -> list[UnitCost]:
    """The cost of every step of an architecture, in the order they run. Arguments as `count`."""
    target_len = seq_len if target_len is None else target_len
    _check(arch, seq_len, target_len, convention)
    costs, seen = [], set()
    for step in plan(arch):
        params = 0 if step.path in seen else unit_params(step.unit)
        seen.add(step.path)
        costs.append(UnitCost(step, params, _step_macs(arch, step, seq_len, target_len, CONVENTIONS[convention])))
    return costs


def count_params(arch: Architecture) -> int:
    """The number of parameters; needs no tracing."""
    return sum(unit_params(unit) for unit in {step.path: step.unit for step in plan(arch)}.values())


@lru_cache(maxsize=100_000)
def unit_params(unit: Unit) -> int:
    """Number of parameters of a unit."""
    return sum(entry.numel for entry in unit_entries(unit) if not entry.is_buffer)


def _about_words(step: Step) -> bool:
    role, kind = step.unit.role, step.unit.block.kind
    return role == "embedding" or (role == "head" and kinds.get(kind).over_words)


def _step_macs(arch: Architecture, step: Step, seq_len: int, target_len: int, convention: Convention) -> int:
    if not convention.ends and step.unit.role in ("embedding", "head"):
        return 0
    if arch.family == "encoder" or (arch.family == "seq2seq" and step.stack == "encoder"):
        return unit_macs(step.unit, seq_len, 1, convention.biases)
    length, source = (target_len, seq_len) if arch.family == "seq2seq" else (seq_len, 1)
    lengths = range(1, length + 1) if convention.prefixes else (length,)
    memory = source if step.unit.role == "cross" else 1
    return sum(unit_macs(step.unit, n, memory, convention.biases) for n in lengths)


def _check(arch: Architecture, seq_len: int, target_len: int, convention: str) -> None:
    if convention not in CONVENTIONS:
        raise InputError("convention", f"{convention!r} is not allowed; allowed: {', '.join(CONVENTIONS)}")
    for name, value in (("seq_len", seq_len), ("target_len", target_len)):
        if not 1 <= value <= arch.context:
            raise InputError(name, f"{value} is not allowed; allowed: 1 to the context {arch.context}")
