"""Whatever a file holds, it is read or refused with an InputError; nothing else escapes."""

from __future__ import annotations

import copy
import json
import random
from datetime import date
from importlib.resources import files
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from search_spaces import Architecture, InputError, load_space, shipped_spaces
from search_spaces.files.loader import space_from_data, space_from_text

TEXTS = {name: files("search_spaces").joinpath(f"{name}.yaml").read_text("utf-8") for name in shipped_spaces()}
DATA = {name: yaml.safe_load(text) for name, text in TEXTS.items()}
ARCHS = {name: load_space(name).sample(random.Random(1)).to_dict() for name in TEXTS}
QUIET = settings(deadline=None, max_examples=100,
                 suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])

words = st.sampled_from(["", "none", "all", "all/2", "all/99", "scaled", "full", "width/n_heads", "7/n_heads",
                         "n_heads", "4x", "0x", "0.3x", "4-8", "8-4", "1-99999", "attention", "conv", "lsra", "delight",
                         "ffn", "tied", "linear", "lookup", "lm", "encoder", "seq2seq", "global", "by_slot", "choose",
                         "first", "searched", "every_other", "rotary", "{slot}", "0", "a.b", "\u00b2", "\ud83d\ude00"])
scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 40), st.integers(), st.just(10**400), st.floats(), words,
                    st.text(max_size=5), st.dates().map(lambda day: date(day.year, day.month, day.day)),
                    st.binary(max_size=3))
keys = st.one_of(words, st.none(), st.integers(0, 3), st.booleans())
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
                      max_leaves=6)
json_values = st.recursive(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), words, st.text(max_size=5)),
                           lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
                           max_leaves=5)


def places(node: Any) -> list[tuple[Any, Any]]:
    """Every (container, key or index) below a node."""
    below = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [place for key, inner in below for place in [(node, key), *places(inner)]]


def mutate(draw: Any, data: Any, others: Any) -> None:
    """One random change somewhere in the data."""
    here = places(data)
    if not here:
        return
    container, key = draw(st.sampled_from(here))
    change = draw(st.sampled_from(["replace", "delete", "listed", "rename", "swap", "twice"]))
    if change == "delete":
        del container[key]
    elif change == "listed":
        container[key] = [container[key]]
    elif change == "rename" and isinstance(container, dict):
        container[draw(words)] = container.pop(key)
    elif change == "swap":
        other, place = draw(st.sampled_from(here))
        container[key] = copy.deepcopy(other[place])
    elif change == "twice" and isinstance(container, list):
        container.append(container[key])
    else:
        container[key] = draw(others)


@st.composite
def mutated(draw: Any, sources: dict[str, Any], others: Any) -> Any:
    data = copy.deepcopy(sources[draw(st.sampled_from(sorted(sources)))])
    for _ in range(draw(st.integers(1, 3))):
        mutate(draw, data, others)
    return data


def load_or_refuse(load: Any) -> None:
    try:
        space = load()
    except InputError as error:
        assert str(error).strip()
        assert all(fault.message for fault in error.faults)
        return
    for seed in range(3):
        arch = space.sample(random.Random(seed))
        assert space.decode(space.encode(arch)) == arch
    assert space.smallest() in space
    assert space.largest() in space


@QUIET
@given(mutated(DATA, values))
def test_a_mutated_space_is_loaded_or_refused(data: Any) -> None:
    load_or_refuse(lambda: space_from_data(data, "fuzz.yaml"))


@QUIET
@given(st.sampled_from(sorted(TEXTS)), st.data())
def test_a_space_cut_off_anywhere_is_loaded_or_refused(name: str, data: st.DataObject) -> None:
    raw = TEXTS[name].encode()
    cut = raw[: data.draw(st.integers(0, len(raw)))].decode(errors="ignore")
    load_or_refuse(lambda: space_from_text(cut, "fuzz.yaml"))


@QUIET
@given(st.sampled_from(sorted(TEXTS)), st.data())
def test_a_space_with_text_put_in_anywhere_is_loaded_or_refused(name: str, data: st.DataObject) -> None:
    text = TEXTS[name]
    at = data.draw(st.integers(0, len(text)))
    more = data.draw(st.one_of(st.text(max_size=6), st.sampled_from(
        ["!!map ", "!!set ", "!!bool ", "!!timestamp ", "!!int ", "!!float ", "!!binary ", "!!omap ", "&a ", "*a",
         "<<: ", "? ", "[", "{", "}", "- ", "\n", "'", '"', "|", ">", "%", "---\n", "...\n", "#", ": ", "0x", "1e999",
         "~", "=", "\t"])))
    end = at + data.draw(st.integers(0, 4))
    load_or_refuse(lambda: space_from_text(text[:at] + more + text[end:], "fuzz.yaml"))


@QUIET
@given(mutated(ARCHS, json_values))
def test_a_mutated_architecture_is_read_or_refused(data: Any) -> None:
    text = json.dumps(data)
    try:
        arch = Architecture.from_json(text, "fuzz.json")
    except InputError as error:
        assert str(error).startswith("fuzz.json: ")
        return
    assert Architecture.from_json(arch.to_json()).key == arch.key


@QUIET
@given(st.sampled_from(sorted(ARCHS)), st.data())
def test_an_architecture_cut_off_anywhere_is_refused(name: str, data: st.DataObject) -> None:
    text = json.dumps(ARCHS[name])
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    try:
        Architecture.from_json(cut, "fuzz.json")
    except InputError as error:
        assert str(error).startswith("fuzz.json: ")
    else:
        raise AssertionError("half an architecture was read")
