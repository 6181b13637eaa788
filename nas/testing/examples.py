"""Small valid configurations of any registered kind, made from its own declaration."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from search_spaces import registry as kinds
from search_spaces.block import BlockConfig
from search_spaces.kind import Dim, Facts, Kind
from search_spaces.units import Unit, make_unit
from supernet.build import build_unit, fresh
from supernet.layers.bands import describe_bands

FACTS = Facts(width=32, context=16, vocab_size=23, n_classes=3, n_types=2, causal=False, positions="learned",
              norm="layernorm", placement="pre", bias=True, rank=32, projects=True)
NARROW = replace(FACTS, width=16, rank=16)
MOST_TRIED = 5_000
"""Maximum number of combinations of values to try."""
BANDS: dict[str, Any] = {"bands": 3, "first": 4, "growth": 2.0, "factor": 2}
"""Bands of an adaptive embedding, for heads that tie to one."""


def known_to(kind: Kind, facts: Facts) -> Facts:
    """The facts for a kind: with the tables of an adaptive embedding, if it uses tables."""
    if "tables" not in kind.facts:
        return facts
    return replace(facts, tables=describe_bands(facts.vocab_size, facts.rank, **BANDS))


def candidates(dim: Dim) -> list[Any]:
    """A few values a dim accepts; of an optional one its default and a few others."""
    if dim.optional:
        others = [value for value in candidates(replace(dim, optional=False)) if value != dim.default]
        return [dim.default, *others[-2:]]
    if dim.type is bool:
        return [False, True]
    if dim.type is str:
        return list(dim.choices)
    tried = [0.25, 0.5, 0.75, 1.5, 2.0] if dim.type is float else [0, 1, 2, 3, 4, 5, 8, 16, 32]
    return [value for value in tried if dim.accepts_number(value)][:5]


def is_valid(kind: Kind, config: dict[str, Any], facts: Facts) -> bool:
    """Whether the kind allows these dims as they are: resolved and canonical."""
    known = known_to(kind, facts).as_dict()
    if kind.resolve(config, known) != config or kind.faults(config, known):
        return False
    return not kind.canonical or kind.canonical(dict(config), known) == (kind.name, config)


def combinations(lists: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Every choice of one value from each list."""
    return [dict(zip(lists, values)) for values in itertools.product(*lists.values())]


def valid_configs(kind: Kind, *facts: Facts, most: int = 8, seed: int = 0) -> list[dict[str, Any]]:
    """Up to `most` combinations of dims that the kind allows among each of these facts."""
    rng, lists = random.Random(seed), {dim.name: candidates(dim) for dim in kind.dims}
    if math.prod(map(len, lists.values())) > MOST_TRIED:
        tried = [{name: rng.choice(values) for name, values in lists.items()} for _ in range(MOST_TRIED)]
    else:
        tried = combinations(lists)
        rng.shuffle(tried)
    good = (config for config in tried if all(is_valid(kind, config, known) for known in facts or (FACTS,)))
    return list(itertools.islice(good, most))


def modules(name: str, facts: Facts = FACTS) -> Iterator[tuple[Unit, nn.Module]]:
    """(unit, module) of several configurations, weights random."""
    kind = kinds.get(name)
    facts = known_to(kind, facts)
    configs = valid_configs(kind, facts)
    assert configs, f"no small configuration of {name} is valid: none of nas.testing.examples fits its rules"
    for i, config in enumerate(configs):
        unit = make_unit(kind.role, BlockConfig.of(name, config), facts)
        module = fresh(build_unit(unit), torch.Generator().manual_seed(i)).eval()
        with torch.no_grad():
            for tensor in module.parameters():
                tensor.add_(torch.randn(tensor.shape) * 0.05)
        yield unit, module


def hidden(n: int = 9) -> Tensor:
    """(2, n, width) random hidden states."""
    return torch.randn(2, n, FACTS.width)


def space_facts(kind: Kind) -> tuple[Facts, Facts]:
    """The facts at the two widths of `space_data`: a mixer that can hide the future does."""
    causal = kind.role == "mixer" and kind.causal
    return replace(FACTS, causal=causal), replace(NARROW, causal=causal)


def elastic_lists(kind: Kind, first: dict[str, Any], second: dict[str, Any]) -> dict[str, list[Any]]:
    """Both values of as many dims as the kind's rules allow in every combination."""
    lists = {name: [value] for name, value in first.items()}
    for name, value in second.items():
        wider = {**lists, name: list(dict.fromkeys([*lists[name], value]))}
        if all(is_valid(kind, config, known) for config in combinations(wider) for known in space_facts(kind)):
            lists = wider
    return lists


def space_data(kind: Kind, configs: list[dict[str, Any]]) -> dict[str, Any]:
    """A space at two widths whose slots each choose between two configurations' dims."""
    family = {"cross": "seq2seq", "head": "encoder" if not kind.over_words else "lm"}.get(kind.role, "lm")
    if kind.role in ("embedding", "mixer", "between") and not kind.causal:
        family = "encoder"
    slots = [elastic_lists(kind, config, configs[(i + 1) % len(configs)]) for i, config in enumerate(configs)]
    by_slot = {dim.name: {"by_slot": [lists[dim.name] for lists in slots]} for dim in kind.dims}
    parts = {"mixer": {"attention": {"n_heads": 2}}, "ffn": {"ffn": {"inner": "1x"}}}
    if family == "seq2seq":
        parts["cross"] = {"cross_attention": {"n_heads": 2}}
    data: dict[str, Any] = {
            "schema_version": 1, "name": f"contract-{kind.name}", "family": family, "vocab_size": 23, "context": 16,
            "width": [16, 32], "embedding": {"lookup": {}},
            "head": {"classifier": {}} if family == "encoder" else {"linear": {}}}
    if "tables" in kind.facts:
        data["embedding"] = {"adaptive_lookup": BANDS}
    if kind.role in (*parts, "between"):
        parts[kind.role] = {kind.name: by_slot}
    else:
        data[kind.role] = {kind.name: slots[0]}
    stack = {"slots": len(configs) if kind.role in parts else 1, "layers": {"only": parts}}
    if family == "seq2seq":
        plain = {"mixer": {"attention": {"n_heads": 2}}, "ffn": {"ffn": {"inner": "1x"}}}
        data["encoder"] = {"slots": 1, "layers": {"only": plain}}
    data["encoder" if family == "encoder" else "decoder"] = stack
    for fact, part, value in (("n_classes", "head", 3), ("n_types", "embedding", 2)):
        if any(fact in kinds.get(name).facts for name in data[part]):
            data[fact] = value
    return data


def all_kinds(role: str | None = None) -> list[str]:
    """The installed kinds, or those of a role."""
    return [name for name, kind in sorted(kinds.registry().items()) if role in (None, kind.role)]
