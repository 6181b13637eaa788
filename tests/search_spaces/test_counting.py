"""`size()` is exact: it equals the number of distinct keys over all genotypes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from search_spaces import SearchSpace
from search_spaces.space.inventory import inventory
from search_spaces.units import plan
from tests.search_spaces.writing import small

ATTENTION = {"n_heads": [1, 2], "head_dim": 8}
FFN = {"ffn": {"inner": ["1x", "2x"]}}
PLAIN = {"mixer": {"attention": ATTENTION}, "ffn": FFN}
DELIGHT = {"mixer": {"delight": {"depth": "scaled", "multiplier": "scaled"}}, "ffn": {"ffn": {"inner": "1x"}}}
EVERY_SHARING = ["none", "attention", "ffn", "all", "all/2", "attention/2", "ffn/2"]


def stack(slots: int, layers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"slots": slots, "layers": layers, **more}


def seq2seq(**more: Any) -> dict[str, Any]:
    cross = {**PLAIN, "cross": {"cross_attention": ATTENTION}}
    return {"family": "seq2seq", "share_inputs": [True, False], "head": {"tied": {}, "linear": {}},
            "encoder": stack(1, {"plain": PLAIN}), "decoder": stack(2, {"plain": cross}, **more)}


CASES: dict[str, dict[str, Any]] = {
    "nothing to choose": {},
    "every sharing, searched depth": {
        "decoder": stack(3, {"plain": PLAIN}, sharing=EVERY_SHARING, depth={"keep": "searched"})},
    "every sharing, searched depth of at least 2": {
        "decoder": stack(3, {"plain": PLAIN}, sharing=EVERY_SHARING, depth={"keep": "searched", "at_least": 2})},
    "sharing only, searched depth": {
        "decoder": stack(4, {"plain": {**PLAIN, "ffn": {"ffn": {"inner": "1x"}}}}, sharing=["all", "all/2"],
                         depth={"keep": "searched"})},
    "groups of 2 and 3, every other": {
        "decoder": stack(4, {"plain": {**PLAIN, "ffn": {"ffn": {"inner": "1x"}}}},
                         sharing=["none", "all/2", "all/3", "attention/3", "all"],
                         depth={"keep": "every_other", "layers": [1, 2, 3, 4]})},
    "first layers": {"decoder": stack(3, {"plain": PLAIN}, depth={"keep": "first", "layers": [1, 3]})},
    "scaling, ascending and descending": {
        "scaling": {"depths": ["1-1", "1-2", "2-2", "1-3"], "multiplier": [1, 2], "order": ["ascending", "descending"]},
        "decoder": stack(3, {"delight": DELIGHT}, depth={"keep": "every_other", "layers": "scaled"})},
    "scaling with a depth of its own, sharing and a scaled embedding": {
        "scaling": {"depths": ["1-2", "2-2", "1-4"], "multiplier": [1, 2], "order": ["ascending", "descending"]},
        "embedding": {"dextra_lookup": {"rank": 8, "depth": "scaled", "multiplier": [1, "scaled"]}},
        "head": {"tied": {"projection": "own"}},
        "decoder": stack(3, {"delight": DELIGHT}, sharing=["none", "all", "all/2"],
                         depth={"keep": "first", "layers": [1, 2, 3]})},
    "two families that overlap, sharing": {
        "decoder": stack(2, {"a": PLAIN, "b": {"mixer": {"attention": {"n_heads": [2, 4], "head_dim": 8}},
                                               "ffn": {"ffn": {"inner": ["2x", "3x"]}}}},
                         sharing=["none", "attention", "all"])},
    "two families, scaling of one": {
        "scaling": {"depths": ["1-1", "1-2"], "multiplier": [1, 2]},
        "decoder": stack(2, {"a": {**PLAIN, "ffn": {"ffn": {"inner": "1x"}}}, "b": DELIGHT},
                         sharing=["none", "attention"], depth={"keep": "searched"})},
    "a global choice of family": {
        "decoder": stack(2, {"a": PLAIN, "b": {"mixer": {"conv": {"kernel": [1, 3]}}, "ffn": FFN}},
                         choose={"global": ["a", "b"]})},
    "families by slot": {
        "decoder": stack(3, {"a": PLAIN, "b": {"mixer": {"conv": {"kernel": [1, 3]}}, "ffn": {"ffn": {"inner": "1x"}}}},
                         choose={"by_slot": ["a", ["a", "b"], "b"]}, depth={"keep": "searched"})},
    "a global dim clipped by a local one": {
        "decoder": stack(2, {"plain": {"mixer": {"attention": {"n_heads": [1, 2, 4], "head_dim": 4,
                                                               "n_kv_heads": {"global": [1, 2]}}},
                                       "ffn": {"ffn": {"inner": {"global": ["1x", "2x"]}}}}},
                         sharing=["none", "all"])},
    "dims by slot, searched depth": {
        "decoder": stack(3, {"plain": {"mixer": {"attention": {"n_heads": {"by_slot": [[1, 2], 2, [2, 4]]}}},
                                       "ffn": {"ffn": {"inner": {"by_slot": ["1x", ["1x", "2x"], 16]}}}}},
                         sharing=["none", "ffn", "all/2"], depth={"keep": "searched"})},
    "a ratio of 0, 1 and between beside the kinds they become": {
        "decoder": stack(1, {"plain": {"mixer": {"attention": {"n_heads": [1, 2]},
                                                 "lsra": {"ratio": [0, 0.5, 1], "n_heads": [1, 2], "kernel": [1, 3]},
                                                 "conv": {"kernel": [3, 5]}},
                                       "ffn": {"ffn": {"inner": "1x"}}}})},
    "clipped key/value heads": {
        "decoder": stack(2, {"plain": {"mixer": {"attention": {"n_heads": [1, 2, 4], "head_dim": 4,
                                                               "n_kv_heads": [1, 2, "n_heads"]}},
                                       "ffn": {"ffn": {"inner": "1x"}}}})},
    "a full rank that is also listed, two widths": {
        "width": [16, 32],
        "embedding": {"lookup": {"rank": [8, 16, "full"], "positions_at": ["width", "rank"]}},
        "head": {"tied": {"projection": ["shared", "own"]}, "linear": {"head_rank": [8, 16, "full"]}},
        "decoder": stack(1, {"plain": {"mixer": {"attention": {"n_heads": 2}},
                                       "ffn": {"ffn": {"inner": ["1x", "2x", 16, 32]}}}})},
    "settings": {"norm": ["layernorm", "rmsnorm"], "placement": ["pre", "post"], "bias": [True, False],
                 "positions": ["learned", "rotary", "none"],
                 "embedding": {"lookup": {"rank": [8, "full"], "positions_at": ["width", "rank"]}}},
    "both stacks": seq2seq(depth={"keep": "first", "layers": [1, 2]}, sharing=["none", "attention"]),
}


def keys_of(space: SearchSpace) -> set[str]:
    names = list(space.genes)
    assert len(names) < 25
    return {space.decode(dict(zip(names, values))).key for values in itertools.product(*space.genes.values())}


@pytest.mark.parametrize("case", CASES)
def test_the_size_is_the_number_of_distinct_architectures(case: str) -> None:
    space = small(**CASES[case])
    assert space.size() == len(keys_of(space))


@pytest.mark.parametrize("case", ["two families, scaling of one", "dims by slot, searched depth", "both stacks",
                                  "scaling with a depth of its own, sharing and a scaled embedding",
                                  "a global dim clipped by a local one"])
def test_every_architecture_encodes_and_every_unit_is_in_the_inventory(case: str) -> None:
    space = small(**CASES[case])
    units, seen = inventory(space), set()
    for values in itertools.islice(itertools.product(*space.genes.values()), 0, None, 5):
        arch = space.decode(dict(zip(space.genes, values)))
        if arch.key not in seen:
            seen.add(arch.key)
            assert space.decode(space.encode(arch)) == arch
            assert all(step.unit in units[step.path] for step in plan(arch))


def test_a_space_without_a_choice_has_one_architecture() -> None:
    space = small()
    assert space.genes == {}
    assert space.size() == 1
    assert space.smallest() == space.largest() == space.decode({})
