"""Names of measures and values with units."""

from __future__ import annotations

import pytest

from nas.core.measures import Limit, Measure, parse_all, parse_limit, parse_measure
from search_spaces import InputError

COUNTED = ("params", "macs", "weight_bytes")
METRICS = {"loss": False, "accuracy": True}


@pytest.mark.parametrize(("text", "value"), [
    ("latency:cpu=12ms", 12.0), ("latency:cpu=0.5s", 500.0), ("latency:cpu=250us", 0.25), ("latency:cpu=250 µs", 0.25),
    ("params=5M", 5e6), ("params=1_500k", 1.5e6), ("params=2,000", 2000.0), ("macs=1.5G", 1.5e9),
    ("weight_bytes=4MiB", 4 * 2**20), ("memory:my phone=100MB", 1e8), ("loss=3.5", 3.5), ("params=1e6", 1e6),
])
def test_values_have_units(text: str, value: float) -> None:
    assert parse_limit(text, METRICS).value == pytest.approx(value)


@pytest.mark.parametrize("text", ["latency:cpu=12", "latency:cpu=12MB", "params=5ms", "params=many", "params=",
                                  "weight_bytes=3ms", "latency:cpu=-", "macs=1..5G", "params=1e999", "params=-5",
                                  "accuracy=5%"])
def test_a_wrong_unit_is_told_with_the_allowed_ones(text: str) -> None:
    with pytest.raises(InputError, match="is not a value of .*; allowed: a number >= 0 with"):
        parse_limit(text, METRICS)


def test_a_limit_without_a_value_is_told() -> None:
    with pytest.raises(InputError, match=r"'params' must be MEASURE=VALUE, such as"):
        parse_limit("params", METRICS)


def test_names_come_back_as_they_were_written() -> None:
    for name in ("loss", "accuracy", "latency:cpu", "latency:cpu:decode", "memory:cpu", "latency:a/my phone",
                 "latency:odd:name", "params", "macs", "weight_bytes"):
        assert parse_measure(name, METRICS).name == name
    assert parse_measure("latency:cpu:decode", METRICS) == Measure("latency", "cpu", "decode")
    assert parse_measure("accuracy", METRICS).maximise and not parse_measure("loss", METRICS).maximise


def test_unknown_measures_are_all_told_with_what_is_allowed() -> None:
    with pytest.raises(InputError) as caught:
        parse_all(["loss", "speed", "latency:", "loss"], METRICS)
    says = str(caught.value)
    assert "'speed' is unknown; allowed: loss, accuracy, " in says
    assert all(form in says for form in ("latency:DEVICE, latency:DEVICE:decode", "memory:DEVICE", *COUNTED))
    assert "'latency:' is unknown" in says and "loss is given twice" in says


def test_a_limit_holds_at_its_value() -> None:
    most, least = Limit(Measure("params"), 10.0), Limit(Measure("accuracy", maximise=True), 0.5, at_least=True)
    assert most.holds(10.0) and not most.holds(10.1) and most.excess(15.0) == pytest.approx(0.5)
    assert least.holds(0.5) and not least.holds(0.4) and str(least) == "accuracy >= 0.5000"
    assert Limit(Measure("params"), 0.0).excess(3.0) == 3.0


def test_values_are_shown_in_fitting_units() -> None:
    assert Measure("latency", "cpu").show(1234.0) == "1.234 s"
    assert Measure("params").show(5.25e6) == "5.25 M"
    assert Measure("weight_bytes").show(2500.0) == "2.5 kB"
    assert Measure("params").show(12.0) == "12"
