"""The price list as text, and what it says of architectures."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from hardware_profiles import LatencyModel
from hardware_profiles.calibration import MeasuredModel, calibrate, from_csv, to_csv
from hardware_profiles.device import parse_device
from hardware_profiles.profile import Calibration, Conditions, Stored, differences, group, read_stored
from hardware_profiles.steps import phase_steps
from hardware_profiles.table import PriceRow, PriceTable, UnitWork, read_unit, unit_text
from search_spaces import Architecture, InputError, load_space
from search_spaces.space.inventory import inventory
from search_spaces.units import Unit

SPACES = ("lm-tiny", "encoder-small", "seq2seq-small")
DEVICE = parse_device("schema_version: 1\nname: mine\nkind: cpu\nruntime: torch-eager\n", "here")


def price(unit: Unit) -> float:
    """Some price that depends on the unit alone."""
    return 0.01 + (len(unit_text(unit)) * 7919 + sum(map(ord, unit_text(unit)))) % 97 / 100


def rows(units: list[Unit], source: str = "measured", phase: str = "prefill") -> list[PriceRow]:
    return [PriceRow(phase, unit, price(unit), 0.9 * price(unit), 1.1 * price(unit), source, UnitWork(1e6, 4e3, 8e3, 5))
            for unit in units]


def units_of(name: str) -> list[Unit]:
    return list(dict.fromkeys(unit for units in inventory(load_space(name)).values() for unit in units))


def samples(name: str, n: int = 12) -> list[Architecture]:
    return [load_space(name).sample(random.Random(seed)) for seed in range(n)]


def model(name: str, **changes: object) -> LatencyModel:
    stored = Stored(device=DEVICE, conditions=Conditions(batch=1, length=64, past=32)).model_copy(update=changes)
    both = rows(units_of(name)) + (rows(units_of(name), phase="decode") if name != "encoder-small" else [])
    return LatencyModel(stored, PriceTable(both), "mine")


@pytest.mark.parametrize("name", SPACES)
def test_units_survive_being_text(name: str) -> None:
    assert all(read_unit(unit_text(unit)) == unit for unit in units_of(name))


def test_a_table_survives_being_a_file(tmp_path: Path) -> None:
    table = PriceTable(rows(units_of("lm-tiny")))
    (tmp_path / "table.csv").write_text(table.to_csv())
    again = PriceTable.from_csv(tmp_path / "table.csv")
    assert again.keys() == table.keys() and again.to_csv() == table.to_csv()


@pytest.mark.parametrize(("change", "says"), [
    (lambda lines: [*lines, lines[3]], "is listed twice"),
    (lambda lines: lines[1:], "line 1 must be phase,unit,ms"),
    (lambda lines: [*lines[:-1], lines[-1][: len(lines[-1]) // 2]], "truncated|cannot be read"),
    (lambda lines: [lines[0], lines[1].replace("measured", "guessed")], "source 'guessed' is not allowed"),
    (lambda lines: [lines[0], lines[1].replace(",measured", ",measured").replace("prefill,", "prefill,", 1)
                    .replace(lines[1].split('}",')[-1].split(",")[0], "nan", 1)], "is not a valid latency"),
    (lambda lines: [], "line 1 must be"),
])
def test_wrong_tables_say_which_line(change, says: str, tmp_path: Path) -> None:
    lines = PriceTable(rows(units_of("lm-tiny"))).to_csv().splitlines()
    (tmp_path / "table.csv").write_text("\n".join(change(lines)) + "\n")
    with pytest.raises(InputError, match=says):
        PriceTable.from_csv(tmp_path / "table.csv")


def test_measured_prices_are_not_overwritten_by_guesses() -> None:
    units = units_of("lm-tiny")[:4]
    table = PriceTable(rows(units[:2])).with_rows(rows(units, "interpolated"))
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


def with_shared_attention(name: str, n: int) -> list[Architecture]:
    """All layers of an architecture share their keys and values: equal blocks, of which the first computes them."""
    space, archs = load_space(name), []
    for arch in samples(name, n):
        genes = space.encode(arch)
        archs.append(space.decode(genes | {gene: "shared_attention" for gene in genes if gene.endswith("mixer.kind")}))
    return archs


@pytest.mark.parametrize("name", ["lm-tiny", "seq2seq-small", "zoo-lm"])
def test_look_ups_do_not_depend_on_earlier_ones(name: str) -> None:
    """Layers that reuse weights, and layers that reuse keys and values, have prices of their own."""
    groups = {group(unit, reused) for unit in units_of(name) for reused in (False, True)}
    scales = {each: 1 + i / len(groups) for i, each in enumerate(sorted(groups))}
    latency = model(name, calibration={"prefill": Calibration(scales=scales, overhead_ms=0.5, n=1)})
    archs = samples(name, 60) + (with_shared_attention(name, 20) if name == "zoo-lm" else [])
    expected = [0.5 + sum(part.ms for part in latency.breakdown(arch)) for arch in archs]
    for _ in range(2):
        assert latency.predict_many(archs) == pytest.approx(expected)
        archs, expected = archs[::-1], expected[::-1]


def test_no_architectures_have_no_latencies() -> None:
    assert model("lm-tiny").predict_many([]).shape == (0,)


def test_a_unit_never_profiled_is_an_error_that_says_what_to_run() -> None:
    arch = samples("lm-small", 1)[0]
    with pytest.raises(InputError, match=r"no prefill latency for .*; run profile\('mine'\)"):
        model("lm-tiny").predict(arch)
    with pytest.raises(InputError, match=r"has no decode latencies \(only prefill\); run"):
        LatencyModel(model("lm-tiny").stored, PriceTable(rows(units_of("lm-tiny"))), "mine").predict(
            samples("lm-tiny")[0], "decode")
    with pytest.raises(InputError, match="'warm' is not allowed; allowed: prefill, decode"):
        model("lm-tiny").predict(samples("lm-tiny")[0], "warm")


def test_one_model_alone_calibrates_without_an_error() -> None:
    found = calibrate(model("lm-tiny"), samples("lm-tiny", 1), np.array([2.5]), "prefill")
    assert found.n == 1 and found.error == 0.0 and np.isfinite(found.common)


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


def times(scale: float) -> dict[str, Calibration]:
    return {"prefill": Calibration(scales=dict.fromkeys(map(group, units_of("lm-tiny")), scale), n=1)}


def test_a_kind_that_no_calibrating_model_has_takes_the_common_scale() -> None:
    raw = model("lm-tiny")
    kinds = {arch: {layer.mixer.kind for layer in arch.decoder} for arch in samples("lm-tiny", 200)}
    without, only = ([arch for arch in kinds if check(kinds[arch])]
                     for check in (lambda found: "lsra" not in found, lambda found: found == {"lsra"}))
    found = calibrate(raw, without[:16], 1.5 * raw.predict_many(without[:16]), "prefill")
    calibrated = LatencyModel(raw.stored.model_copy(update={"calibration": {"prefill": found}}), raw.table, "mine")
    assert calibrated.predict_many(only) == pytest.approx(1.5 * raw.predict_many(only), rel=0.02)


def test_an_architecture_adds_up_as_in_the_first_space_that_has_all_its_units() -> None:
    raw, archs = model("lm-tiny"), samples("lm-tiny", 30)
    some = {step.unit for step in phase_steps(archs[0], "prefill")}
    table = raw.table.with_space("prefill", some, "first").with_space("prefill", units_of("lm-tiny")[1:], "second")
    stored = raw.stored.model_copy(update={"calibration": times(5.0), "by_space": {"first": times(2.0),
                                                                                   "second": times(3.0)}})
    latency = LatencyModel(stored, table, "mine")
    factors = latency.predict_many(archs) / raw.predict_many(archs)
    missing = units_of("lm-tiny")[0]
    for arch, factor in zip(archs, factors):
        units = {step.unit for step in phase_steps(arch, "prefill")}
        assert factor == pytest.approx(2.0 if units <= some else 5.0 if missing in units else 3.0)
        assert sum(part.ms for part in latency.breakdown(arch)) == pytest.approx(latency.predict(arch))
    assert set(np.round(factors)) == {2.0, 3.0, 5.0}


def test_a_table_of_a_version_without_spaces_is_read(tmp_path: Path) -> None:
    table = PriceTable(rows(units_of("lm-tiny"))).with_space("prefill", units_of("lm-tiny"), "a, \"b\"")
    (tmp_path / "new.csv").write_text(table.to_csv())
    assert {row.spaces for row in PriceTable.from_csv(tmp_path / "new.csv").values()} == {("a, \"b\"",)}
    old = [line.rsplit(',"[', 1)[0].removesuffix(",spaces") for line in table.to_csv().splitlines()]
    (tmp_path / "old.csv").write_text("\n".join(old) + "\n")
    assert PriceTable.from_csv(tmp_path / "old.csv").keys() == table.keys()


def test_measured_models_survive_being_a_file(tmp_path: Path) -> None:
    measured = [MeasuredModel("prefill", "a, b", arch, 1.25) for arch in samples("lm-tiny", 3)]
    (tmp_path / "models.csv").write_text(to_csv(measured))
    assert from_csv(tmp_path / "models.csv") == measured and from_csv(tmp_path / "none.csv") == []
    (tmp_path / "models.csv").write_text("phase,space,ms,architecture\nprefill,a,1,{\n")
    with pytest.raises(InputError, match=r"models\.csv, line 2"):
        from_csv(tmp_path / "models.csv")
    (tmp_path / "models.csv").write_text("phase,space\n")
    with pytest.raises(InputError, match="has no column 'ms'; it has: phase, space"):
        from_csv(tmp_path / "models.csv")


def test_a_stored_profile_survives_being_a_folder(tmp_path: Path) -> None:
    latency = model("lm-tiny")
    (tmp_path / "profile.yaml").write_text(latency.stored.to_yaml())
    (tmp_path / "table.csv").write_text(latency.table.to_csv())
    again = LatencyModel.load(tmp_path)
    assert again.predict_many(samples("lm-tiny")) == pytest.approx(latency.predict_many(samples("lm-tiny")), rel=1e-5)


@pytest.mark.parametrize(("asked", "says"), [
    ("cpux", r"cpux: is unknown: .*did you mean cpu\?"), ("fridge", "fridge: is unknown: .*shipped devices: a100"),
    ("cpu", r"cpu: has no measured profile; create one with profile\('cpu', space='SPACE'\)"),
    ("mine.yaml", r"mine.yaml: has no measured profile; create one with profile\('mine\.yaml', space='SPACE'\)"),
    ("some/where", r"is not a profile folder: .*profile\('DEVICE', space='SPACE', out='some/where'\)"),
])
def test_a_profile_that_is_not_there_says_what_helps(asked: str, says: str, tmp_path: Path,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("schema_version: 1\nname: mine\nkind: cpu\nruntime: torch-eager\n")
    with pytest.raises(InputError, match=says):
        LatencyModel.load(asked)


def test_wrong_profiles_say_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a profile folder.*run profile"):
        read_stored(tmp_path)
    (tmp_path / "profile.yaml").write_text("schema_version: 1\ncolour: red\n")
    with pytest.raises(InputError, match="colour"):
        read_stored(tmp_path)
    (tmp_path / "profile.yaml").write_text("device: [")
    with pytest.raises(InputError, match="not valid YAML at line 1, column 10.*run profile\\(\\) again"):
        read_stored(tmp_path)


def test_another_version_or_thread_count_is_told() -> None:
    stored = model("lm-tiny", recorded={"torch": "2.0"}).stored
    threads = DEVICE.model_copy(update={"threads": 4})
    assert differences(stored, {"torch": "2.13"}, threads) == [
        "measured with torch 2.0; here it is 2.13", "measured with threads 1; the device file has 4"]
    assert differences(stored, {"torch": "2.0"}, DEVICE) == []


def test_weights_used_again_have_a_price_of_their_own() -> None:
    latency = model("lm-tiny", calibration={"prefill": Calibration(scales={"ffn": 2.0, "ffn again": 1.0}, n=1)})
    arch = next(arch for arch in samples("lm-tiny", 99) if len({layer.ffn_slot for layer in arch.decoder}) < arch.depth)
    parts = [part for part in latency.breakdown(arch) if part.step.unit.role == "ffn"]
    scales = [round(part.ms / price(part.step.unit), 6) for part in parts]
    assert scales[0] == 2.0 and 1.0 in scales
    assert latency.predict(arch) == pytest.approx(sum(part.ms for part in latency.breakdown(arch)))
    assert latency.predict_many([arch])[0] == pytest.approx(latency.predict(arch))
