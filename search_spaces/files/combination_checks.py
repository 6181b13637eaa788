"""Checks a part's lists of values against its kinds' rules, in every combination that matters."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from search_spaces import registry as kinds
from search_spaces.errors import Fault
from search_spaces.kind import Facts, Kind, Rule, Value
from search_spaces.space.dimensions import Gene, PartSpace

MOST_SHOWN = 3


@dataclass(frozen=True)
class BlockContext:
    """What surrounds a block: the facts, and what scaling gives it."""

    facts: Facts
    extra: tuple[tuple[str, Value], ...]

    def as_dict(self) -> dict[str, Value]:
        """Both by name."""
        return {**self.facts.as_dict(), **dict(self.extra)}


def part_faults(part: PartSpace, key: str, slots: int | None, contexts: Sequence[BlockContext]) -> list[Fault]:
    """Faults for every combination of a part's values that its kinds forbid; only a few of each are listed."""
    faults: list[Fault] = []
    for kind_name, genes in part.dims.items():
        kind = kinds.get(kind_name)
        if not kind.causal and any(known.facts.causal for known in contexts):
            faults.append(Fault(f"{key}.{kind_name}", "is not causal and cannot be used in a decoder"))
        for rule in _all_rules(kind):
            broken = dict.fromkeys(_rule_faults(kind, rule, genes, slots, contexts))
            shown = list(itertools.islice(broken, MOST_SHOWN))
            faults += [Fault(f"{key}.{kind_name}.{rule.needs[0]}", text) for text in shown]
            if len(broken) > MOST_SHOWN:
                more = f"... and {len(broken) - MOST_SHOWN} more like it"
                faults.append(Fault(f"{key}.{kind_name}.{rule.needs[0]}", more))
    return faults


def _all_rules(kind: Kind) -> Iterator[Rule]:
    """The kind's rules, and for each dim the rule that its value can be resolved."""
    for dim in kind.dims:
        if dim.expressions or dim.at_most:
            yield Rule((dim.name,), lambda _: True, "")
    yield from kind.rules


def _rule_faults(kind: Kind, rule: Rule, genes: Mapping[str, Gene], slots: int | None,
                 contexts: Iterable[BlockContext]) -> Iterator[str]:
    dims = _involved(kind, rule, genes)
    by_slot = any(len(genes[dim].values) > 1 for dim in dims)
    facts = {name for name in rule.needs if name not in genes}  # also optional dims, which `_fault` fills in
    for dim in dims:
        facts |= {need for values in genes[dim].values for value in values for need in kind.dim(dim).needs(value)}
    facts -= set(genes)
    cases = {tuple(sorted((name, value) for name, value in known.as_dict().items() if name in facts)): None
             for known in contexts}
    for slot in range(slots or 1) if by_slot else (0,):
        for case, values in itertools.product(cases, itertools.product(*(genes[dim].choices(slot) for dim in dims))):
            text = _fault(kind, rule, dict(case), dict(zip(dims, values)))
            if text:
                yield text + (f" (slot {slot})" if by_slot else "")


def _involved(kind: Kind, rule: Rule, genes: Mapping[str, Gene]) -> list[str]:
    """The dims a rule looks at, with those their spellings refer to, in declared order."""
    wanted = {name for name in rule.needs if name in genes}
    while True:
        more = {need for name in wanted for values in genes[name].values for value in values
                for need in kind.dim(name).needs(value) if need in genes} - wanted
        if not more:
            return [dim.name for dim in kind.dims if dim.name in wanted]
        wanted |= more


def _fault(kind: Kind, rule: Rule, known: dict[str, Value], raw: dict[str, Value]) -> str | None:
    known = kind.filled(known)
    for name, value in raw.items():
        try:
            known[name] = kind.dim(name).resolve(value, known)
        except ValueError as error:
            return str(error) if name == rule.needs[0] else None
    return rule.fault(known)
