"""The tables of measurements are what the committed CSV files give, and every row says where it comes from."""

import csv
import importlib.util
import re
from pathlib import Path

import pytest

from search_spaces.block import BlockConfig, block_faults
from search_spaces.registry import registry

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "benchmarks" / "results").glob("*.csv"))


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def generator():
    return module(ROOT / "docs" / "generate_results.py")


@pytest.fixture(scope="module")
def results():
    return module(ROOT / "benchmarks" / "_results.py")


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("page", ["docs/results.md", "README.md"])
def test_pages_are_what_the_generator_writes(page, generator):
    text = (ROOT / page).read_text("utf-8")
    assert generator.REGION.search(text)
    assert text == generator.filled(text), f"{page} is out of date; run make results"


def test_every_table_is_on_a_page(generator):
    text = "".join((ROOT / page).read_text("utf-8") for page in generator.PAGES)
    marked = re.findall(r"<!-- results:([\w-]+) -->", text)
    assert sorted(marked) == sorted(generator.REGIONS)
    assert text.count("<!-- /results -->") == len(marked)


def test_tables_of_measurements_are_not_typed(generator):
    outside = generator.REGION.sub("", (ROOT / "docs" / "results.md").read_text("utf-8"))
    assert not re.findall(r"^\|.*\|$", outside, re.MULTILINE)


def test_the_last_row_counts(generator, monkeypatch, tmp_path):
    (tmp_path / "few.csv").write_text("name,value\na,1\nb,2\na,3\n")
    monkeypatch.setattr(generator, "RESULTS", tmp_path)
    assert {key: row["value"] for key, row in generator.latest("few", "name").items()} == {("a",): "3", ("b",): "2"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_row_says_where_it_comes_from(path, results):
    found = rows(path)
    assert found
    assert tuple(found[0])[-len(results.PROVENANCE):] == results.PROVENANCE
    for row in found:
        assert row["commit"] or row["recorded_in"], row
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", row["date"]), row


def test_benchmarks_append_rows(results, tmp_path):
    results.append(tmp_path, "speed", [{"name": "a", "ms": 1.5}])
    results.append(tmp_path, "speed", [{"name": "b"}])
    found = rows(tmp_path / "speed.csv")
    assert [(row["name"], row["ms"]) for row in found] == [("a", "1.5"), ("b", "")]
    assert all(row["date"] and row["machine"] and row["command"] for row in found)
    with pytest.raises(ValueError, match="watts"):
        results.append(tmp_path, "speed", [{"watts": 3}])
    results.append(None, "speed", [{"name": "c"}])
    assert len(rows(tmp_path / "speed.csv")) == 2


def test_every_mixer_has_dims_to_scale(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    scaling = module(ROOT / "benchmarks" / "mixer_scaling.py")
    for kind in (kind for kind in registry().values() if kind.role == "mixer"):
        block = BlockConfig.of(kind.name, scaling.mixer_dims(kind, scaling.FACTS))
        assert not block_faults(block, "mixer", scaling.FACTS), block
