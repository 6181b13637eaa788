"""A block as a value: its kind and its dims."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from search_spaces import registry as kinds
from search_spaces.errors import Fault
from search_spaces.kind import Dims, Facts, Value


@dataclass(frozen=True)
class BlockConfig:
    """A block: its kind and exactly the dims that kind declares, sorted by name."""

    kind: str
    dims: tuple[tuple[str, Value], ...] = ()

    def __post_init__(self) -> None:
        """One spelling: dims sorted, floats for float dims, optional dims left out at their default."""
        declared = kinds.registry().get(self.kind)
        floats, usual = (declared.float_dims, declared.usual) if declared else ((), {})
        dims = sorted(self.dims)
        if floats:
            dims = [(name, float(value) if name in floats and type(value) is int else value) for name, value in dims]
        if usual:
            dims = [(name, value) for name, value in dims
                    if not (name in usual and type(value) is type(usual[name]) and value == usual[name])]
        object.__setattr__(self, "dims", tuple(dims))

    @classmethod
    def of(cls, kind: str, dims: Dims) -> BlockConfig:
        """The block of a kind with these dims."""
        return cls(kind, tuple(dims.items()))

    def __getitem__(self, name: str) -> Value:
        return self.filled()[name]

    def filled(self) -> dict[str, Value]:
        """Its dims with the optional ones that it leaves out."""
        declared = kinds.registry().get(self.kind)
        return declared.filled(dict(self.dims)) if declared else dict(self.dims)

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(f'{name}={value}' for name, value in self.dims)})"


def canonical_block(kind: str, values: Dims, facts: Facts) -> BlockConfig:
    """The canonical block equivalent to `kind` with these resolved dims."""
    declared = kinds.get(kind)
    if declared.canonical:
        kind, values = declared.canonical(declared.filled(values), facts.as_dict())
    return BlockConfig.of(kind, values)


def head_facts(facts: Facts, embedding: BlockConfig) -> Facts:
    """Facts that a head may use, including the embedding it can tie to."""
    kind, dims = kinds.get(embedding.kind), embedding.filled()
    tables = kind.tables(dims, facts.as_dict()) if kind.tables else "words"
    return replace(facts, rank=int(dims.get("rank", facts.width)), projects=kind.projects, tables=tables)


def block_faults(block: BlockConfig, role: str, facts: Facts) -> tuple[Fault, ...]:
    """What is wrong with one block in its place."""
    return _typed_block_faults(block, role, facts, tuple(type(value) for _, value in block.dims))


@lru_cache(maxsize=100_000)
def _typed_block_faults(block: BlockConfig, role: str, facts: Facts, types: tuple[type, ...]) -> tuple[Fault, ...]:
    """The types are part of the cache key only: 1, 1.0 and true are equal, and only one of them is allowed."""
    try:
        kind = kinds.get(block.kind)
    except KeyError as error:
        return (Fault("kind", str(error.args[0])),)
    if kind.role != role:
        return (Fault("kind", f"{kind.name} is a {kind.role}; allowed: {', '.join(kinds.names(role))}"),)
    faults = kind.faults(dict(block.dims), facts.as_dict())
    if not faults:
        canonical = canonical_block(block.kind, dict(block.dims), facts)
        if canonical != block:
            faults = [Fault("", f"{block} contains dims that have no effect; write {canonical}")]
    return tuple(faults)
