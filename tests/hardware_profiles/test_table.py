"""The price list as text, and what it says of architectures."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from hardware_profiles import LatencyModel
from hardware_profiles.calibration import calibrate
from hardware_profiles.latency import phase_steps
from hardware_profiles.profile import parse_device
from hardware_profiles.stored import Calibration, Conditions, Stored, differences, read_stored
from hardware_profiles.table import Row, Table, Work, read_unit, unit_text
from search_spaces import Architecture, InputError, load_space
from search_spaces.inventory import inventory
from search_spaces.units import Unit

SPACES = ("lm-tiny", "encoder-small", "seq2seq-small")
DEVICE = parse_device("schema_version: 1\nname: mine\nkind: cpu\nruntime: torch-eager\n", "here")


def price(unit: Unit) -> float:
    """Some price that depends on the unit alone."""
    return 0.01 + (len(unit_text(unit)) * 7919 + sum(map(ord, unit_text(unit)))) % 97 / 100


def rows(units: list[Unit], source: str = "measured", phase: str = "prefill") -> list[Row]:
    return [Row(phase, unit, price(unit), 0.9 * price(unit), 1.1 * price(unit), source, Work(1e6, 4e3, 8e3, 5))
            for unit in units]


def units_of(name: str) -> list[Unit]:
    return list(dict.fromkeys(unit for units in inventory(load_space(name)).values() for unit in units))


def samples(name: str, n: int = 12) -> list[Architecture]:
    return [load_space(name).sample(random.Random(seed)) for seed in range(n)]


def model(name: str, **changes: object) -> LatencyModel:
    stored = Stored(device=DEVICE, conditions=Conditions(batch=1, length=64, past=32)).model_copy(update=changes)
    both = rows(units_of(name)) + (rows(units_of(name), phase="decode") if name != "encoder-small" else [])
    return LatencyModel(stored, Table(both), "mine")


@pytest.mark.parametrize("name", SPACES)
def test_units_survive_being_text(name: str) -> None:
    assert all(read_unit(unit_text(unit)) == unit for unit in units_of(name))


def test_a_table_survives_being_a_file(tmp_path: Path) -> None:
    table = Table(rows(units_of("lm-tiny")))
    (tmp_path / "table.csv").write_text(table.to_csv())
    again = Table.from_csv(tmp_path / "table.csv")
    assert again.keys() == table.keys() and again.to_csv() == table.to_csv()


@pytest.mark.parametrize(("change", "says"), [
    (lambda lines: [*lines, lines[3]], "stands twice"),
    (lambda lines: lines[1:], "line 1 must be phase,unit,ms"),
    (lambda lines: [*lines[:-1], lines[-1][: len(lines[-1]) // 2]], "cut off|cannot be read"),
    (lambda lines: [lines[0], lines[1].replace("measured", "guessed")], "source 'guessed' is not allowed"),
    (lambda lines: [lines[0], lines[1].replace(",measured", ",measured").replace("prefill,", "prefill,", 1)
                    .replace(lines[1].split('}",')[-1].split(",")[0], "nan", 1)], "is no time"),
    (lambda lines: [], "line 1 must be"),
])
def test_wrong_tables_say_which_line(change, says: str, tmp_path: Path) -> None:
    lines = Table(rows(units_of("lm-tiny"))).to_csv().splitlines()
    (tmp_path / "table.csv").write_text("\n".join(change(lines)) + "\n")
    with pytest.raises(InputError, match=says):
        Table.from_csv(tmp_path / "table.csv")


def test_measured_prices_are_not_overwritten_by_guesses() -> None:
    units = units_of("lm-tiny")[:4]
    table = Table(rows(units[:2])).with_rows(rows(units, "interpolated"))
    assert [table["prefill", unit].source for unit in units] == ["measured"] * 2 + ["interpolated"] * 2
    assert table.with_rows(rows(units)).is_measured("prefill", units[3])


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_prediction_is_the_sum_of_its_units(name: str, phase: str) -> None:
    if (name, phase) == ("encoder-small", "decode"):
        with pytest.raises(InputError, match="an encoder does not decode"):
            model(name).predict(samples(name)[0], phase)
        return
    latency, archs = model(name), samples(name)
    expected = [sum(price(step.unit) for step in phase_steps(arch, phase)) for arch in archs]
    assert latency.predict_many(archs, phase) == pytest.approx(expected)
    assert [latency.predict(arch, phase) for arch in archs] == pytest.approx(expected)
    assert sum(part.ms for part in latency.breakdown(archs[0], phase)) == pytest.approx(expected[0])
    low, high = latency.interval(archs[0], phase)
    assert low < expected[0] < high


def test_no_architectures_have_no_latencies() -> None:
    assert model("lm-tiny").predict_many([]).shape == (0,)


def test_a_unit_never_profiled_is_an_error_that_says_what_to_run() -> None:
    arch = samples("lm-small", 1)[0]
    with pytest.raises(InputError, match="no prefill latency for .*; run nas profile mine"):
        model("lm-tiny").predict(arch)
    with pytest.raises(InputError, match="has no decode latencies"):
        LatencyModel(model("lm-tiny").stored, Table(rows(units_of("lm-tiny"))), "mine").predict(
            samples("lm-tiny")[0], "decode")
    with pytest.raises(InputError, match="'warm' is not allowed; allowed: prefill, decode"):
        model("lm-tiny").predict(samples("lm-tiny")[0], "warm")


def test_calibration_finds_the_scales_that_made_the_models() -> None:
    raw, archs = model("lm-tiny"), samples("lm-tiny", 40)
    true = {"attention": 1.1, "lsra": 1.0, "conv": 1.05, "delight": 0.95, "ffn": 1.15, "embedding": 1.0, "head": 1.0}
    def ms(arch: Architecture) -> float:
        return 0.05 + sum(true.get(part.step.unit.block.kind, true.get(part.step.unit.role, 1.0)) * part.ms
                          for part in raw.breakdown(arch))
    found = calibrate(raw, archs[:25], np.array([ms(arch) for arch in archs[:25]]), "prefill")
    calibrated = LatencyModel(raw.stored.model_copy(update={"calibration": {"prefill": found}}), raw.table, "mine")
    errors = calibrated.predict_many(archs[25:]) / np.array([ms(arch) for arch in archs[25:]]) - 1
    assert np.abs(errors).max() < 0.03 and np.abs(errors).mean() < 0.01 and found.n == 25
    assert np.abs(raw.predict_many(archs[25:]) / np.array([ms(arch) for arch in archs[25:]]) - 1).mean() > 0.03


def test_a_stored_profile_survives_being_a_folder(tmp_path: Path) -> None:
    latency = model("lm-tiny")
    (tmp_path / "profile.yaml").write_text(latency.stored.to_yaml())
    (tmp_path / "table.csv").write_text(latency.table.to_csv())
    again = LatencyModel.load(tmp_path)
    assert again.predict_many(samples("lm-tiny")) == pytest.approx(latency.predict_many(samples("lm-tiny")), rel=1e-5)


def test_wrong_profiles_say_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no measured profile.*nas profile"):
        read_stored(tmp_path)
    (tmp_path / "profile.yaml").write_text("schema_version: 1\ncolour: red\n")
    with pytest.raises(InputError, match="colour"):
        read_stored(tmp_path)
    (tmp_path / "profile.yaml").write_text("device: [")
    with pytest.raises(InputError, match="cannot be read"):
        read_stored(tmp_path)


def test_another_version_or_thread_count_is_told() -> None:
    stored = model("lm-tiny", recorded={"torch": "2.0"}).stored
    threads = DEVICE.model_copy(update={"threads": 4})
    assert differences(stored, {"torch": "2.13"}, threads) == [
        "measured with torch 2.0, this is 2.13", "measured with threads 1, the device's file says 4"]
    assert differences(stored, {"torch": "2.0"}, DEVICE) == []


def test_weights_used_again_have_a_price_of_their_own() -> None:
    latency = model("lm-tiny", calibration={"prefill": Calibration(scales={"ffn": 2.0, "ffn again": 1.0}, n=1)})
    arch = next(arch for arch in samples("lm-tiny", 99) if len({layer.ffn_slot for layer in arch.decoder}) < arch.depth)
    parts = [part for part in latency.breakdown(arch) if part.step.unit.role == "ffn"]
    scales = [round(part.ms / price(part.step.unit), 6) for part in parts]
    assert scales[0] == 2.0 and 1.0 in scales
    assert latency.predict(arch) == pytest.approx(sum(part.ms for part in latency.breakdown(arch)))
    assert latency.predict_many([arch])[0] == pytest.approx(latency.predict(arch))
