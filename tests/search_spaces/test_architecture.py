"""Architectures are values: canonical, checked, and readable from JSON whatever the JSON."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from search_spaces import Architecture, BlockConfig, InputError, load_architecture, load_space
from tests.search_spaces.writing import small

ARCH = small(
    decoder__layers__plain__mixer={"delight": {"depth": 2, "multiplier": 2}},
    decoder__layers__plain__ffn={"ffn": {"inner": "2x", "gated": True}}).decode({})


def report(change: Callable[[dict[str, Any]], object]) -> str:
    data = ARCH.to_dict()
    change(data)
    with pytest.raises(InputError) as caught:
        Architecture.from_json(json.dumps(data), "arch.json")
    assert all(line.startswith("arch.json: ") for line in str(caught.value).splitlines())
    return str(caught.value)


def put(*path: Any, value: Any) -> Callable[[dict[str, Any]], object]:
    def change(data: Any) -> None:
        for name in path[:-1]:
            data = data[name]
        data[path[-1]] = value
    return change


def drop(*path: Any) -> Callable[[dict[str, Any]], object]:
    def change(data: Any) -> None:
        for name in path[:-1]:
            data = data[name]
        del data[path[-1]]
    return change


CASES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "rank that is a word": (put("embedding", "rank", value="encoder"), "embedding.rank: 'encoder'"),
    "unknown key": (put("wdth", value=3), "wdth: unknown key; allowed: family, vocab_size"),
    "missing key": (drop("width"), "width: is missing"),
    "no version": (drop("schema_version"), "schema_version: None is not supported; this version reads 1"),
    "newer version": (put("schema_version", value=2), "schema_version: 2 is not supported; this version reads 1"),
    "family that is a list": (
        put("family", value=["lm"]), "family: ['lm'] is not allowed; allowed: lm, encoder, seq2seq"),
    "width that is a text": (put("width", value="16"), "width: '16' is not allowed; allowed: a whole number from 1"),
    "width that is a fraction": (put("width", value=16.0), "width: 16.0 is not allowed"),
    "width that is a table": (put("width", value={}), "width: {} is not allowed"),
    "too great a width": (put("width", value=10**12), "width: 1000000000000 is not allowed"),
    "norm that is nothing": (put("norm", value=None), "norm: None is not allowed; allowed: layernorm, rmsnorm, none"),
    "bias that is a number": (put("bias", value=1), "bias: 1 is not allowed; allowed: true or false"),
    "layers that are no list": (put("decoder", value={}), "decoder: must be a list of layers"),
    "no layers": (put("decoder", value=[]), "decoder: must have layers"),
    "a layer that is no table": (put("decoder", 0, value=3), "decoder.0: must be a JSON object, not int"),
    "unknown part of a layer": (
        put("decoder", 0, "mix", value={}), "decoder.0.mix: unknown key; allowed: mixer, cross, ffn"),
    "missing part of a layer": (drop("decoder", 1, "ffn"), "decoder.1.ffn: must be a JSON object, not NoneType"),
    "missing slot": (
        drop("decoder", 0, "ffn", "slot"), "decoder.0.ffn.slot: None is not allowed; allowed: a whole number"),
    "slot below 0": (put("decoder", 0, "mixer", "slot", value=-1), "decoder.0.mixer.slot: -1 is not allowed"),
    "slot of the embedding": (put("embedding", "slot", value=0), "embedding.slot: unknown dim of lookup"),
    "unknown kind": (
        put("decoder", 0, "mixer", "kind", value="x"), "decoder.0.mixer.kind: unknown kind 'x'; installed: "),
    "kind that is a number": (put("head", "kind", value=3), "head.kind: 3 is not the name of a block kind"),
    "kind of another role": (put("head", "kind", value="ffn"), "head.kind: ffn is a ffn; allowed: adaptive_softmax"),
    "head of another family": (
        put("head", value={"kind": "features", "pooler": False}), "head.kind: features returns no token logits"),
    "unknown dim": (
        put("decoder", 0, "ffn", "x", value=3), "decoder.0.ffn.x: unknown dim of ffn; allowed: ['activation'"),
    "missing dim": (drop("decoder", 0, "ffn", "inner"), "decoder.0.ffn.inner: missing dim of ffn"),
    "dim that is a list": (put("decoder", 0, "ffn", "inner", value=[3]), "decoder.0.ffn.inner: [3] is not a number"),
    "dim that is an expression": (
        put("decoder", 0, "ffn", "inner", value="2x"), "decoder.0.ffn.inner: '2x' is not allowed"),
    "truth that is a number": (put("decoder", 0, "ffn", "gated", value=1), "decoder.0.ffn.gated: 1 is not allowed"),
    "whole number that is a fraction": (
        put("decoder", 0, "ffn", "inner", value=32.0), "decoder.0.ffn.inner: 32.0 is not allowed"),
    "endless number": (
        put("decoder", 0, "mixer", "multiplier", value=float("inf")), "decoder.0.mixer.multiplier: inf is not allowed"),
    "no number": (
        put("decoder", 0, "mixer", "multiplier", value=float("nan")), "decoder.0.mixer.multiplier: nan is not allowed"),
    "dead dim": (
        put("embedding", "positions_at", value="rank"), "embedding: lookup(norm_after=False, positions_at=rank"),
    "cross-attention of a language model": (
        put("decoder", 0, "cross", value={"kind": "cross_attention", "n_heads": 2, "head_dim": 8, "n_kv_heads": 2}),
        "decoder.0.cross: is allowed in a seq2seq decoder only"),
    "separate inputs of a language model": (
        put("share_inputs", value=False), "share_inputs: false is allowed for seq2seq only"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_architecture_is_told_what_is_wrong(case: str) -> None:
    change, expected = CASES[case]
    assert expected in report(change)


def test_one_slot_has_one_set_of_dims() -> None:
    data = ARCH.to_dict()
    data["decoder"][1]["ffn"] |= {"slot": 0, "inner": 99}
    with pytest.raises(InputError, match="decoder.1.ffn: .*inner=99.* uses slot 0, which holds ffn.*inner=32"):
        Architecture.from_dict(data)


def test_a_whole_number_may_stand_for_a_fraction_and_the_key_is_the_same() -> None:
    data = ARCH.to_dict()
    assert data["decoder"][0]["mixer"]["multiplier"] == 1.0
    for layer in data["decoder"]:
        layer["mixer"]["multiplier"] = 1
    assert Architecture.from_dict(data).key == ARCH.key
    dims = {"depth": 2, "group_start": 2}
    assert repr(BlockConfig.of("delight", {**dims, "multiplier": 2})["multiplier"]) == "2.0"


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", '"x"', "nonsense", "[" * 100_000, "9" * 5000,
                                  '{"a": ' * 100_000, '{"schema_version": 1' + "0" * 30 + "}", "\ud800", "\0"])
def test_text_that_is_no_architecture_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^arch\.json: ."):
        Architecture.from_json(text, "arch.json")


def test_json_that_is_cut_off_says_so() -> None:
    with pytest.raises(InputError, match="not valid JSON at line 1, column .*the file may be truncated"):
        Architecture.from_json(ARCH.to_json()[:-10])


def test_an_architecture_file_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match="nowhere.json: cannot be read") as caught:
        load_architecture("nowhere.json")
    assert "space" not in str(caught.value)


def test_an_architecture_file_gives_the_architecture(tmp_path: Path) -> None:
    path = tmp_path / "arch.json"
    path.write_text(ARCH.to_json())
    assert load_architecture(path) == ARCH


def test_an_architecture_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ARCH.width = 3  # type: ignore[misc]


def test_equal_architectures_have_equal_keys_and_different_ones_different_keys() -> None:
    space, rng = load_space("lm-tiny"), random.Random(0)
    archs = [space.sample(rng) for _ in range(200)]
    assert len(set(archs)) == len({arch.key for arch in archs})
