"""Context of a forward pass besides the hidden states."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor


@dataclass
class Record:
    """What blocks report on request: attention maps."""

    attention: list[Tensor] = field(default_factory=list)


@dataclass
class State:
    """The decoding state of one sub-layer: a block reads the tensors and replaces them.

    The first axis of each is the batch. A block never writes into a tensor it was given.
    """

    tensors: tuple[Tensor, ...] = ()


@dataclass
class Call:
    """The context of one sub-layer's call.

    Args:
        mask: (batch, length), true for real tokens; None if all are real. Where x continues a sequence,
            the length is that of the whole: the tokens before x come first.
        memory: (batch, source length, width), the encoder's output for cross-attention.
        memory_mask: as `mask`, of the memory.
        types: (batch, length) token types, for an embedding.
        target: whether the tokens are the target of a seq2seq model, for an embedding.
        before: the hidden states and mask before each block that shortened the sequence, latest last.
        record: filled by blocks; None if no record is kept.
        losses: blocks append their auxiliary losses (scalars) here; None if they are not needed.
        state: the state of the block if x continues a sequence; None if x is the whole sequence.
        position: how many tokens came before x; (batch, n) the positions of x, where those of rows differ.
        shared: what earlier layers of the stack computed for later ones, by the names that `Kind.shares` gives; None if
            a unit runs alone.
    """

    mask: Tensor | None = None
    memory: Tensor | None = None
    memory_mask: Tensor | None = None
    types: Tensor | None = None
    target: bool = False
    before: tuple[tuple[Tensor, Tensor | None], ...] = ()
    record: Record | None = None
    losses: list[Tensor] | None = None
    state: State | None = None
    position: int | Tensor = 0
    shared: dict[str, tuple[Tensor, ...]] | None = None
