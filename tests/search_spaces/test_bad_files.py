"""A wrong space file is told by file, key path, value and what is allowed; all its faults in one report."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from search_spaces import InputError, load_space, shipped_spaces
from search_spaces.files.loader import space_from_data, space_from_text
from tests.search_spaces.writing import changed

MIXER = "decoder.layers.plain.mixer"


def report(**changes: Any) -> str:
    with pytest.raises(InputError) as caught:
        space_from_data(changed(**changes), "my.yaml")
    lines = str(caught.value).splitlines()
    assert all(line.startswith("my.yaml: ") for line in lines)
    return "\n".join(line.removeprefix("my.yaml: ") for line in lines)


def mixer(**dims: Any) -> dict[str, Any]:
    return {"decoder__layers__plain__mixer": dims}


CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown key": ({"wdth": 3}, ["wdth: unknown key; allowed: schema_version, name"]),
    "unknown nested key": ({"decoder__sltos": 3}, ["decoder.sltos: unknown key; allowed: slots, depth"]),
    "unknown key of depth": (
        {"decoder__depth": {"keep": "first", "layers": 1, "x": 1}}, ["decoder.depth.x: unknown key; allowed: keep"]),
    "unknown key of a layer": (
        {"decoder__layers__plain__mix": {}}, ["decoder.layers.plain.mix: unknown key; allowed: mixer, ffn, cross"]),
    "a key that is no word": ({"decoder__layers": {1: {}}}, ["decoder.layers.1: 1 is not a string"]),
    "missing key": ({"width": ...}, ["width: is missing; allowed: a list of whole numbers"]),
    "wrong type": ({"vocab_size": "many"}, ["vocab_size: 'many' is not allowed; allowed: a whole number"]),
    "number as text": ({"vocab_size": "32"}, ["vocab_size: '32' is not allowed"]),
    "truth as number": ({"width": [True]}, ["width.0: True is not allowed"]),
    "fraction as whole number": ({"context": 8.5}, ["context: 8.5 is not allowed"]),
    "too great a number": ({"vocab_size": 10**12}, ["vocab_size: 1000000000000 is not allowed", "to 10^9"]),
    "table as value": ({"width": {"a": 1}}, ["width: {'a': 1} is not allowed"]),
    "unknown word": ({"norm": "batchnorm"}, ["norm: 'batchnorm' is not allowed; allowed: layernorm, rmsnorm, none"]),
    "unknown family": ({"family": "rnn"}, ["family: 'rnn' is not allowed; allowed: lm, encoder or seq2seq"]),
    "bad name": ({"name": "../up"}, ["name: '../up' is not allowed; allowed: letters"]),
    "newer file": ({"schema_version": 2}, ["schema_version: 2 is not allowed; allowed: 1"]),
    "empty list": ({"width": []}, ["width: is empty"]),
    "empty list of a dim": (mixer(attention={"n_heads": []}), [f"{MIXER}.attention.n_heads: is empty"]),
    "empty part": (
        {"decoder__layers__plain__mixer": {}}, [f"{MIXER}: is empty; allowed: ", "conv, delight"]),
    "listed twice": ({"width": [16, 32, 16]}, ["width: 16 is listed twice"]),
    "listed twice in two spellings": (
        mixer(lsra={"ratio": [1, 1.0], "n_heads": 2, "kernel": 3}), [f"{MIXER}.lsra.ratio: 1.0 is listed twice"]),
    "unknown kind": (
        mixer(atention={}), [f"{MIXER}.atention: unknown mixer kind; installed: ", "conv, delight"]),
    "kind of another role": (mixer(ffn={}), [f"{MIXER}.ffn: unknown mixer kind"]),
    "dims that are no table": (mixer(attention=3), [f"{MIXER}.attention: must be a table of dims, found 3"]),
    "unknown dim": (
        mixer(attention={"heads": 2}), [f"{MIXER}.attention.heads: unknown dim; allowed: n_heads, head_dim, n_kv_heads",
                                        f"{MIXER}.attention.n_heads: is missing"]),
    "wrong dim": (
        mixer(attention={"n_heads": [2, "two", 0, None]}),
        [f"{MIXER}.attention.n_heads: 'two' is not allowed; allowed: a whole number",
         "n_heads: 0 is not", "None is not"]),
    "date": (
        mixer(attention={"n_heads": [date(2020, 1, 1)]}), ["datetime.date(2020, 1, 1) is not"]),
    "heads that do not divide the width": (
        mixer(attention={"n_heads": [2, 3]}),
        [f"{MIXER}.attention.head_dim: 'width/n_heads' with width=16, n_heads=3 is 5.33333, not a whole number"]),
    "key/value heads that do not divide": (
        mixer(attention={"n_heads": 4, "n_kv_heads": 3}),
        [f"{MIXER}.attention.n_kv_heads: 3 is not allowed with n_heads 4: n_kv_heads must divide n_heads"]),
    "heads that do not divide an LSRA branch": (
        mixer(lsra={"ratio": 0.5, "n_heads": 3, "kernel": 3}),
        [f"{MIXER}.lsra.n_heads: 3 is not allowed with ratio 0.5"]),
    "odd head size with rotary positions": (
        {"positions": "rotary", **mixer(attention={"n_heads": 2, "head_dim": 5})},
        [f"{MIXER}.attention.head_dim: 5 is not allowed with positions rotary"]),
    "even kernel": (
        mixer(conv={"kernel": [3, 4]}), [f"{MIXER}.conv.kernel: 4 is not allowed; allowed: an odd whole number"]),
    "endless number": (
        mixer(lsra={"ratio": float("inf"), "n_heads": 2, "kernel": 3}),
        [f"{MIXER}.lsra.ratio: inf is not allowed; allowed: a number from 0 to 1"]),
    "endless multiplier": (
        mixer(delight={"depth": 2, "multiplier": float("inf")}), [f"{MIXER}.delight.multiplier: inf is not allowed"]),
    "rank above the width": (
        {"embedding": {"lookup": {"rank": [8, 20]}}},
        ["embedding.lookup.rank: 20 is not allowed with width 16: the rank must be at most the width"]),
    "depths in the wrong order": (
        {"scaling": {"depths": ["8-4"], "multiplier": 2}},
        ["scaling.depths: '8-4' is not allowed: N_min 8 is greater than N_max 4"]),
    "scaled without scaling": (
        mixer(delight={"depth": "scaled", "multiplier": 2}), [f"{MIXER}.delight.depth: scaled needs the key scaling"]),
    "scaled depth without scaling": (
        {"decoder__depth": {"keep": "first", "layers": "scaled"}},
        ["decoder.depth.layers: scaled needs the key scaling"]),
    "more blocks than slots": (
        {"scaling": {"depths": ["1-4"], "multiplier": 2}, "decoder__depth": {"keep": "first", "layers": "scaled"}},
        ["decoder.slots: 2 is less than the 4 blocks of scaling.depths"]),
    "group longer than the stack": (
        {"decoder__sharing": ["none", "all/3"]},
        ["decoder.sharing: 'all/3' has groups longer than the maximum depth 2"]),
    "unknown sharing": (
        {"decoder__sharing": "some"},
        ["decoder.sharing: 'some' is not allowed; allowed: none, attention"]),
    "depth above the slots": (
        {"decoder__depth": {"keep": "first", "layers": [1, 5]}}, ["decoder.depth.layers: 5 is more than the 2 slots"]),
    "wrong entry of a list that may also be a word": (
        {"decoder__depth": {"keep": "first", "layers": [1, "x"]}}, ["decoder.depth.layers.1: 'x' is not allowed"]),
    "least depth above the slots": (
        {"decoder__depth": {"keep": "searched", "at_least": 3}},
        ["decoder.depth.at_least: 3 is more than the 2 slots"]),
    "depth without layers": ({"decoder__depth": {"keep": "first"}}, ["decoder.depth.layers: is missing; allowed: "]),
    "by_slot of the wrong length": (
        mixer(attention={"n_heads": {"by_slot": [1, 2, 4]}}),
        [f"{MIXER}.attention.n_heads: by_slot needs a list of 2 entries, one per slot; found 3"]),
    "misspelt by_slot": (
        mixer(attention={"n_heads": {"per_slot": [1, 2]}}),
        ["{'per_slot': [1, 2]} is not allowed; allowed: a value or a list"]),
    "per slot where there are none": (
        {"embedding": {"lookup": {"rank": {"global": [8]}}}},
        ["embedding.lookup.rank: {'global': [8]} is not allowed"]),
    "choosing what is not listed": (
        {"decoder__choose": ["plain", "fancy"]}, ["decoder.choose: 'fancy' is not one of the layer types: plain"]),
    "missing stack": ({"family": "encoder", "decoder": ...}, ["encoder: is missing"]),
    "stack of another family": ({"encoder": changed()["decoder"]}, ["encoder: family lm has no encoder"]),
    "missing cross-attention": (
        {"family": "seq2seq", "encoder": changed()["decoder"]},
        ["decoder.layers.plain.cross: is missing: a seq2seq decoder attends to the source"]),
    "cross-attention in a language model": (
        {"decoder__layers__plain__cross": {"cross_attention": {"n_heads": 2}}},
        ["decoder.layers.plain.cross: is allowed in a seq2seq decoder only"]),
    "separate inputs of a language model": (
        {"share_inputs": False}, ["share_inputs: false is allowed for the family seq2seq"]),
    "head that gives no words": (
        {"head": {"features": {}}}, ["head.features: returns no token logits, which the family lm needs"]),
    "classifier without classes": (
        {"family": "encoder", "encoder": changed()["decoder"], "decoder": ..., "head": {"classifier": {}}},
        ["head.classifier.pool: ", "n_classes 0: a classifier needs n_classes >= 1"]),
    "too many searched slots": (
        {"decoder__slots": 20, "decoder__depth": {"keep": "searched"}},
        ["decoder.depth: searched works up to 16 slots, found 20"]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_fault_is_told_by_path_value_and_what_is_allowed(case: str) -> None:
    changes, expected = CASES[case]
    text = report(**changes)
    for words in expected:
        assert words in text


def test_all_faults_of_a_file_are_in_one_report() -> None:
    text = report(wdth=3, norm=["layernorm", "batch"], decoder__sharing=["all/9"], embedding={"lookup": {"rnk": 3}},
                  **mixer(conv={"kernel": [4]}))
    for key in ("wdth:", "norm.1:", "decoder.sharing:", "embedding.lookup.rnk:", f"{MIXER}.conv.kernel:"):
        assert key in text


def test_single_faults_do_not_hide_faults_between_dims() -> None:
    text = report(vocab_size="many", decoder__sharing=["all/9"], embedding={"lookup": {"rank": 20}},
                  **mixer(conv={"kernel": [4]}, attention={"n_heads": 4, "n_kv_heads": 3}))
    for words in ("vocab_size: 'many'", "decoder.sharing: 'all/9'", f"{MIXER}.conv.kernel: 4",
                  "embedding.lookup.rank: 20", f"{MIXER}.attention.n_kv_heads: 3"):
        assert words in text


def test_faults_between_dims_are_in_one_report() -> None:
    text = report(embedding={"lookup": {"rank": 20}}, **mixer(attention={"n_heads": 4, "n_kv_heads": 3}))
    assert "embedding.lookup.rank: 20" in text
    assert f"{MIXER}.attention.n_kv_heads: 3" in text


def test_many_faults_of_a_kind_are_summed_up() -> None:
    text = report(width=[17, 19, 23, 29, 31], **mixer(attention={"n_heads": 2}))
    assert text.count("not a whole number") == 3
    assert "... and 2 more like it" in text


TEXTS = {
    "nothing": ("", "must be a table of keys, found nothing"),
    "a list": ("- a", "must be a table of keys, found a list"),
    "cut off": ("name: [a", "not valid YAML at line 1"),
    "a key twice": ("name: a\nname: b", "line 2, column 1: duplicate key 'name'"),
    "a nested key twice": ("decoder:\n  slots: 1\n  slots: 2", "line 3, column 3: duplicate key 'slots'"),
    "a list as key": ("? [a]\n: b", "a key must be a string or a number"),
    "an object": ("!!python/object:os.system {}", "a value of the type !!python/object:os.system is not allowed"),
    "a table that is none": ("!!map [1, 2]", "not a table of keys"),
    "a truth that is none": ("a: !!bool maybe", "line 1, column 4: 'maybe' cannot be read as bool"),
    "a time that is none": ("a: !!timestamp soon", "type !!timestamp is not allowed; allowed: strings, numbers"),
    "a thirteenth month": ("schema_version: 2001-13-01", "schema_version: '2001-13-01' is not allowed"),
    "a date": ("schema_version: 2001-12-01", "schema_version: '2001-12-01' is not allowed"),
    "a number of base 60": ("context: 190:20:30", "context: '190:20:30' is not allowed"),
    "bytes": ("a: !!binary aGk=", "a value of the type !!binary is not allowed"),
    "a set": ("a: !!set {b}", "a value of the type !!set is not allowed"),
    "an unpaired surrogate": ('a: "\\ud800"', "contains a character that is not text"),
    "a number without digits": ("a: !!int ''", "'' cannot be read as int"),
    "a number of 5000 digits": ("a: " + "9" * 5000, "the number 999999999999... is too large"),
    "a hexadecimal of 5000 digits": ("a: 0x" + "f" * 5000, "is too large"),
    "brackets without end": ("[" * 5000, "line 1, column 101: nested too deeply; allowed: 100 levels"),
    "a null character": ("a: \0", "not valid YAML: unacceptable character"),
    "a list that holds itself": ("width: &a [*a]", "an alias refers to a value that contains it"),
    "a table that holds itself": ("decoder: &a {layers: *a}", "an alias refers to a value that contains it"),
    "lists that multiply": ("a0: &a0 [x, x]\n" + "".join(f"a{i + 1}: &a{i + 1} [*a{i}, *a{i}]\n" for i in range(60))
                            + "width: *a60", "values; allowed: 100,000"),
    "merge keys that multiply": ("a0: &a0 {x: 1}\n" + "".join(
        f"a{i + 1}: &a{i + 1} {{<<: [*a{i}, *a{i}, *a{i}], k{i}: 1}}\n" for i in range(30)),
        "values; allowed: 100,000"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_text_that_is_no_space_is_refused(case: str) -> None:
    text, expected = TEXTS[case]
    with pytest.raises(InputError) as caught:
        space_from_text(text, "my.yaml")
    assert expected in str(caught.value)
    assert str(caught.value).startswith("my.yaml: ")


def test_merge_keys_and_anchors_work() -> None:
    text = """
schema_version: 1
name: merged
family: seq2seq
vocab_size: 32
context: 8
width: 16
embedding: {lookup: {}}
head: {tied: {}}
encoder:
  slots: 2
  layers:
    plain: &plain
      mixer: {attention: &heads {n_heads: 2}}
      ffn: {ffn: {inner: 2x}}
decoder:
  slots: 1
  layers:
    plain: {<<: *plain, cross: {cross_attention: *heads}}
"""
    assert space_from_text(text, "merged.yaml").smallest().depth == 3


def test_a_file_that_is_not_there_suggests_what_is() -> None:
    with pytest.raises(InputError) as caught:
        load_space("lm-smal")
    assert "lm-smal: cannot be read (No such file or directory)" in str(caught.value)
    assert "did you mean lm-small?" in str(caught.value)
    assert all(name in str(caught.value) for name in shipped_spaces())


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes("name: caf\u00e9".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin\.yaml: is not UTF-8 text: byte 9 cannot be read"):
        load_space(path)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_space(tmp_path)


def test_a_path_with_a_null_character_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_space("a\0b")


def test_a_file_is_named_in_its_faults(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine")
    with pytest.raises(InputError) as caught:
        load_space(path)
    assert all(line.startswith(f"{path}: ") for line in str(caught.value).splitlines())


def test_a_wrong_word_in_a_nested_table_hides_nothing() -> None:
    text = report(decoder__depth={"keep": "last", "layers": [1]}, embedding={"lookup": {"rank": 20}})
    assert "decoder.depth.keep: 'last' is not allowed" in text
    assert "embedding.lookup.rank: 20" in text


def test_a_value_that_stands_alone_is_not_told_as_a_list() -> None:
    assert "positions: 'sinusoid' is not allowed" in report(positions="sinusoid")
    assert "positions.1: 'sinusoid' is not allowed" in report(positions=["learned", "sinusoid"])
