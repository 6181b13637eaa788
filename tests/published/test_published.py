from collections import Counter

import pytest
import torch

from nas.core.costs import count
from nas.core.published import check_number, delight_depth, part_params
from search_spaces import Architecture
from search_spaces import registry as kinds
from search_spaces.errors import InputError
from search_spaces.files.loader import space_from_data
from search_spaces.published import catalogue
from search_spaces.published.catalogue import load_published, names, numbers, single_architecture
from supernet import Transformer

GATING = [number for number in numbers() if number.gates]
PRINTED_M = {"r1": 14.1, "r7": 16.5, "r2": 16.6, "r4": 16.7, "r9": 20.0, "r5": 21.0, "r11": 23.8, "r12": 27.1,
             "r14": 29.9, "r15": 43.8}
"""Parameters of DeLighT's ablation as printed, in millions; R3 (22.1) is left out: ours stands lower in the order."""
PRINTED_G = {"r1": 2.96, "r4": 3.51, "r5": 4.41}
"""Multiply-adds of some of these rows as printed, in 10^9: tracing all of them would take long."""


def parameters(model: torch.nn.Module) -> int:
    return sum(tensor.numel() for tensor in model.parameters())


@pytest.mark.parametrize("number", GATING, ids=lambda n: f"{n.architecture}-{n.metric}-{n.part}-{n.seq_len}")
def test_published_number_is_met(number):
    row = check_number(number)
    printed = f"{number.paper}, {number.model}: {number.value} {number.unit}"
    assert row.result == "pass", f"{printed} printed, ours {row.ours:.6g}"


def test_approximate_numbers_are_information():
    rows = [check_number(number) for number in numbers() if not number.gates]
    assert rows and {row.result for row in rows} == {"info"}
    assert all(abs(row.deviation) < max(0.08, row.number.tolerance) for row in rows)


def test_a_missed_number_fails():
    number = next(number for number in GATING if number.architecture == "bert-base")
    wrong = catalogue.PublishedNumber(**{**vars(number), "value": number.value * 1.02})
    assert check_number(wrong).result == "fail"


@pytest.mark.parametrize("name", names())
def test_name_is_one_architecture(name):
    where, base, overrides = catalogue._points()[name]
    space = space_from_data(catalogue._overridden(base, overrides, where) | {"name": name}, where)
    arch = load_published(name)
    assert space.genes == {} and space.size() == 1 and arch in space
    assert Architecture.from_json(arch.to_json()) == arch


def test_distinct_names_are_distinct_architectures():
    keys = Counter(load_published(name).key for name in names())
    assert max(keys.values()) == 1


@pytest.mark.parametrize("name", ["gpt-3", "bert-base", "delight-en-ro-384", "lite-transformer-200", "t5-untied"])
def test_counts_are_those_of_the_plain_model(name):
    with torch.device("meta"):
        model = Transformer(load_published(name))
    assert parameters(model) == part_params(load_published(name))


def test_parts_add_up():
    arch = load_published("lecture-big")
    assert part_params(arch) == part_params(arch, "embedding") + part_params(arch, "non_embedding")
    assert part_params(arch, "non_embedding") == part_params(arch, "attention") + part_params(arch, "ffn")


def test_delight_reversed_costs_the_same():
    ascending, descending = load_published("delight-r5"), load_published("delight-r16")
    assert ascending != descending
    assert part_params(ascending) == part_params(descending)
    assert count(ascending, 20).macs == count(descending, 20).macs
    assert delight_depth(ascending) == delight_depth(descending) == 158


def test_delight_ablation_has_the_printed_order():
    ours = {row: part_params(load_published(f"delight-{row}"), "non_embedding") for row in PRINTED_M}
    macs = {row: count(load_published(f"delight-{row}"), 20, convention="lite").macs for row in PRINTED_G}
    assert sorted(ours, key=ours.get) == sorted(PRINTED_M, key=PRINTED_M.get)
    assert sorted(macs, key=macs.get) == sorted(PRINTED_G, key=PRINTED_G.get)


def test_sharing_keeps_the_multiply_adds():
    assert count(load_published("albert-base-e128-all"), 128, convention="lite").macs == count(
        load_published("albert-base-e128-none"), 128, convention="lite").macs


def test_released_delight_widens_source_and_target_apart():
    kind = kinds.get("dextra_lookup")
    make = {"width": 64, "vocab_size": 10, "context": 8, "positions": "none", "rank": 16, "scale": True, "depth": 2,
            "multiplier": 2.0, "group_start": 2}
    one, two = parameters(kind.module(**make, sides=1)), parameters(kind.module(**make, sides=2))
    assert two - one == one - 10 * 16


def test_target_tokens_pass_the_targets_unit():
    model = Transformer(single_architecture(
        catalogue._overridden(catalogue._points()["delight-en-de-128"][1], {
            "vocab_size": 20, "width": 64, "head.tied.projection": "own",
            "decoder.layers.delight.cross.cross_attention.head_dim": 32,
        }, "small") | {"name": "small"}, "small"), seed=0)
    tokens = torch.arange(6)[None]
    model(tokens, tokens).sum().backward()
    assert all(tensor.grad is not None for tensor in model.parameters())


def test_unknown_name_suggests_a_close_one():
    with pytest.raises(InputError, match=r"bert-bse: is not a published architecture; did you mean bert-base\?"):
        load_published("bert-bse")


def test_a_point_with_a_choice_is_refused():
    _, base, _ = catalogue._points()["bert-base"]
    with pytest.raises(InputError, match="width: has 2 values"):
        single_architecture(base | {"name": "two", "width": [768, 1536]}, "two.yaml")


def test_an_override_must_lead_somewhere():
    _, base, _ = catalogue._points()["bert-base"]
    with pytest.raises(InputError, match="decoder.slots: is not a table of the base"):
        catalogue._overridden(base, {"decoder.slots": 3}, "here")


@pytest.mark.parametrize("change, says", [
    ({"status": "maybe"}, "'maybe' is not one of yes, fitted, approx"),
    ({"architecture": "bert-huge"}, "'bert-huge' is not a published architecture"),
    ({"value": "many"}, "could not convert string to float: 'many'"),
])
def test_a_wrong_line_of_the_table_is_told(change, says):
    row = {name: str(value) for name, value in vars(numbers()[0]).items()} | change
    with pytest.raises(InputError, match=says):
        catalogue._number(row, 7)
