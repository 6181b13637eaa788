"""Files are read within limits, and what is wrong is one sentence with the place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import BaseModel

from search_spaces.errors import Fault, InputError, shown
from search_spaces.files.reading import (
    MOST_BYTES,
    checked,
    number,
    parse_json,
    parse_yaml,
    read_bytes,
    read_csv,
    read_json,
    read_json_lines,
    read_table,
    read_text,
    read_yaml,
)
from search_spaces.files.yaml_loader import MOST_DEPTH

JSON = {
    "cut off": ('{"a": ', "not valid JSON at line 1, column 7"),
    "deep lists": ("[" * 20_000 + "]" * 20_000, "nested too deeply; allowed: 100 levels"),
    "deep tables": ('{"a":' * 101 + "1" + "}" * 101, "nested too deeply; allowed: 100 levels"),
    "a long number": ("9" * 5000, "the number 999999999999... has 5,000 digits; allowed: at most 18"),
    "a number of 20 digits": ("[123456789012345678901]", "has 21 digits"),
    "an unpaired surrogate": ('{"a": "\\ud800"}', "an unpaired surrogate is not text"),
    "nothing": ("", "not valid JSON at line 1, column 1"),
}


@pytest.mark.parametrize("case", JSON)
def test_json_that_others_would_fail_on_is_refused(case: str) -> None:
    text, says = JSON[case]
    with pytest.raises(InputError) as caught:
        parse_json(text, "a.json", "delete it")
    assert str(caught.value).startswith("a.json: ") and says in str(caught.value)
    assert str(caught.value).endswith("; delete it")


def test_json_at_the_limits_is_read() -> None:
    deepest = "[" * MOST_DEPTH + "]" * MOST_DEPTH
    assert json.dumps(parse_json(deepest, "")) == deepest
    assert parse_json(f"[{2**63 - 1}, -{2**63 - 1}]", "") == [2**63 - 1, 1 - 2**63]
    assert parse_json('["\\ud83d\\ude00", "\\u00e9"]', "") == ["\U0001f600", "é"]
    assert parse_json('{"a": "' + "[{" * 500 + '"}', "") == {"a": "[{" * 500}


def test_a_duplicate_key_of_json_is_refused_where_asked() -> None:
    assert parse_json('{"a": 1, "a": 2}', "") == {"a": 2}
    with pytest.raises(InputError, match="x: not valid JSON: duplicate key 'a'"):
        parse_json('{"a": 1, "a": 2}', "x", unique=True)


def test_a_file_of_another_kind_names_what_it_holds(tmp_path: Path) -> None:
    for text, found in (("[1]", "a list"), ("null", "nothing"), ("true", "true or false"), ('"x"', "a string")):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(InputError, match=rf"a\.json: must be a table of keys, found {found}"):
            read_table(tmp_path / "a.json")


def test_bytes_that_are_no_text_name_their_place(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc\xff")
    for read in (read_text, read_json, read_yaml, lambda path: read_csv(path, ())):
        with pytest.raises(InputError, match="a: is not UTF-8 text: byte 3 cannot be read"):
            read(tmp_path / "a")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(InputError, match=r"large: has 1,073,741,825 bytes; allowed: at most 1,073,741,824"):
        read_bytes(tmp_path / "large")


def test_a_last_line_that_was_cut_off_is_left_out_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n{"a"')
    assert list(read_json_lines(path)) == [(1, {"a": 1}), (2, {"a": 2})]
    path.write_text('{"a": 1}\n{"a"\n{"a": 3}\n')
    with pytest.raises(InputError, match=r"a\.jsonl, line 2: not valid JSON at line 1, column 5"):
        list(read_json_lines(path))
    path.write_text('{"a": 1}\n[2]\n')
    with pytest.raises(InputError, match=r"a\.jsonl, line 2: must be a table of keys, found a list"):
        list(read_json_lines(path))


def test_rows_of_csv_have_the_columns_of_the_header(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('key,ms\n"a,b",1\n\nc,2\n')
    assert read_csv(path, ("ms",)) == [(2, {"key": "a,b", "ms": "1"}), (4, {"key": "c", "ms": "2"})]
    with pytest.raises(InputError, match=r"a\.csv: has no column 'us'; it has: key, ms"):
        read_csv(path, ("us",))
    path.write_text("key,ms\na,1,2\n")
    with pytest.raises(InputError, match=r"a\.csv, line 2: has 3 of 2 columns"):
        read_csv(path, ())
    path.write_text(f"key,ms\n{'x' * 200_000},1\n")
    with pytest.raises(InputError, match=r"a\.csv, line 2: is not CSV: field larger than field limit"):
        read_csv(path, ())


def test_what_is_no_number_is_named() -> None:
    assert number("1e3", "") == 1000.0
    for value in ("", "x", None, [], "1,2"):
        with pytest.raises(InputError, match="a.csv: .* is not a number; delete it"):
            number(value, "a.csv", "delete it")


def test_yaml_has_the_types_of_json() -> None:
    text = "a: 2020-01-01\nb: 190:20:30\nc: [1, 0x1F, 1.5, yes, ~, .inf]\nd: 1e3\ne: '1'"
    assert parse_yaml(text, "") == {"a": "2020-01-01", "b": "190:20:30", "c": [1, 31, 1.5, True, None, float("inf")],
                                    "d": "1e3", "e": "1"}


class _Numbers(BaseModel):
    values: dict[str, float]


def test_a_value_of_another_type_is_named_with_its_key() -> None:
    assert checked(_Numbers, {"values": {"a": 1}}, "").values == {"a": 1.0}
    says = r"a\.json: is damaged \(values\.a: \[1\] is not allowed: input should be a valid number\); delete"
    with pytest.raises(InputError, match=says):
        checked(_Numbers, {"values": {"a": [1]}}, "a.json", "delete it")


def test_errors_show_the_beginning_of_long_values() -> None:
    for value in ("x" * 100_000, ["x" * 1000] * 1000, dict.fromkeys(range(1000), "y" * 50), 10**200):
        assert len(shown(value)) <= 80
    assert str(InputError("here", f"{'v' * 5000!r} is not allowed")) == f"here: '{'v' * 76}... is not allowed"
    assert len(str(InputError("here", [Fault("k" * 5000, "v " * 5000)]))) <= 1600
