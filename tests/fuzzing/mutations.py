"""Ways to damage a file: its bytes, its lines, or one value of what it holds."""

from __future__ import annotations

import copy
import json
import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

import yaml

Rng = random.Random
Mutation = Callable[[bytes, Rng], bytes]
PLACE = "put-it-here"
"""Stands for a value until the text of the file is written, because no library writes what we put there."""
DEPTH = 20_000
HUGE = "9" * 5000
LONG = "x" * 200_000
VALUES = ("null", "true", "false", "0", "-1", "1", "0.5", "7e8", "1000000000", "1e308", "1e999", "-1e999", "NaN",
          "Infinity", '"x"', '""', '"\\ud800"', '"\\u0000"', '"nan"', '"../.."', "[]", "{}", "[[]]", "[1]",
          '["x", null]', '{"a": 1}', '{"": []}', HUGE, f'"{LONG}"', "1" + "0" * 400, "123456789012345678901",
          '"1e400"', "-0.0")
"""JSON values that stand where another is expected."""
DEEP = ("[" * DEPTH + "]" * DEPTH, '{"a":' * DEPTH + "1" + "}" * DEPTH, "[" * DEPTH)
YAML_VALUES = ("2020-13-45", "2020-01-01", "!!timestamp x", "!!bool x", "!!int x", "!!float x", "!!null x",
               "!!binary ///", "!!set {a, b}", "!!omap [a: 1]", "!!pairs [a: 1]", "!!str 3",
               "!!python/object:os.system x", "!mine x",
               "190:20:30", "0x1F", "0b1", "0o17", "1_000", "~", "yes", "No", "on", ".nan", "-.inf", ".inf", "1e3",
               "&z [*z]", "&z {a: *z}", "{<<: 3}", "{? [a] : 1}", "{1: 2}", "{null: 1}", "{true: 1}", "=", "*missing",
               "!!int " + HUGE, '"\\ud800"', '"\\x00"', "{a: 1, a: 2}", "!!merge x", "{<<: {a: 1}}", "-", "@x", "%x")
BOMB = "".join(f"z{i}: &z{i} [{', '.join([f'*z{i - 1}' if i else 'lol'] * 9)}]\n" for i in range(9))
MERGE_BOMB = "z0: &z0 {a: 1}\n" + "".join(
    f"z{i}: &z{i} {{<<: [{', '.join([f'*z{i - 1}'] * 9)}], k{i}: 1}}\n" for i in range(1, 9))
CELLS = ("", "nan", "inf", "-inf", "-1", "0", "x", "1e999", "１", "²", "true", '"', '""', '"a,b"', "None", "null",
         "\x00", HUGE, LONG, "1_0", " 1 ", "a\rb", "1,2", "[]", "{}", '"[[[["', "=1+1", "\u2028",
         '"' + "[" * DEPTH + '"')
BAD_BYTES = (b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\x00", b"\xef\xbb\xbf", b"\x1a", b"\x85", b"\xf5\x80\x80\x80")


def truncate(data: bytes, rng: Rng) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def empty(data: bytes, rng: Rng) -> bytes:
    return rng.choice((b"", b"\n", b" ", b"\n\n\n", b"\x00" * 64, b"null", b"[]", b"{}", b"3", b'"x"', b"true\n"))


def flip(data: bytes, rng: Rng) -> bytes:
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 4, 32)) if found else 0):
        found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
    return bytes(found)


def insert(data: bytes, rng: Rng) -> bytes:
    place = rng.choice((0, len(data), rng.randrange(len(data) + 1)))
    return data[:place] + rng.choice(BAD_BYTES) + data[place:]


def lines(data: bytes, rng: Rng) -> bytes:
    """A line twice, gone, moved, or cut in two; or other line ends."""
    found = data.splitlines(keepends=True) or [b""]
    i, j = rng.randrange(len(found)), rng.randrange(len(found))
    way = rng.randrange(6)
    if way == 0:
        found.insert(j, found[i])
    elif way == 1:
        del found[i]
    elif way == 2:
        found[i], found[j] = found[j], found[i]
    elif way == 3:
        found[i] = found[i][: len(found[i]) // 2] + b"\n" + found[i][len(found[i]) // 2:]
    elif way == 4:
        return data.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\n", "\u2028".encode())))
    else:
        found.insert(i, LONG.encode() + b"\n")
    return b"".join(found)


BYTES: tuple[Mutation, ...] = (truncate, empty, flip, insert, lines)


def changed(data: Any, rng: Rng) -> Any:
    """Data with one value replaced by `PLACE`, or a key deleted, added, renamed, or copied from elsewhere."""
    data = copy.deepcopy(data)
    places = list(_places(data))
    if not places:
        return PLACE
    node, key = rng.choice(places)
    way = rng.random()
    if way < 0.6:
        node[key] = PLACE
    elif way < 0.7:
        del node[key]
    elif way < 0.8:
        other, name = rng.choice(places)
        node[key] = copy.deepcopy(other[name])
    elif isinstance(node, list):
        node.insert(key, PLACE if way < 0.9 else copy.deepcopy(node[key]))
    elif way < 0.9:
        node[rng.choice(("added", "", "a b", "schema_version", "\ud800", "0"))] = PLACE
    else:
        node[f"{key}x"] = node.pop(key)
    return data


def _places(data: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of every value inside."""
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in list(pairs):
        yield data, key
        yield from _places(value)


def json_value(data: bytes, rng: Rng) -> bytes:
    text = json.dumps(changed(json.loads(data), rng))
    return text.replace(f'"{PLACE}"', rng.choice((*VALUES, *DEEP, *VALUES)), 1).encode() + b"\n"


def json_line(data: bytes, rng: Rng) -> bytes:
    found = data.splitlines(keepends=True)
    i = rng.randrange(len(found))
    found[i] = json_value(found[i], rng)
    return b"".join(found)


def yaml_value(data: bytes, rng: Rng) -> bytes:
    text = yaml.safe_dump(changed(yaml.safe_load(data), rng), sort_keys=False)
    way = rng.random()
    if way < 0.1:
        return (BOMB + text.replace(PLACE, "*z8", 1)).encode()
    if way < 0.2:
        return (MERGE_BOMB + text.replace(PLACE, "{<<: *z8}", 1)).encode()
    values = (*VALUES, *DEEP) if way < 0.55 else YAML_VALUES
    return text.replace(PLACE, rng.choice(values), 1).encode("utf-8", "surrogatepass")


def yaml_bomb(data: bytes, rng: Rng) -> bytes:
    """Aliases of aliases under one of the file's own keys."""
    text = data.decode()
    bomb, last = rng.choice(((BOMB, "*z8"), (MERGE_BOMB, "*z8")))
    key = rng.choice(list(yaml.safe_load(text)))
    block = "\n".join(f"  {line}" for line in bomb.splitlines())
    kept = {name: value for name, value in yaml.safe_load(text).items() if name != key}
    return f"{yaml.safe_dump(kept, sort_keys=False)}{key}:\n{block}\n  last: {last}\n".encode()


def csv_cell(data: bytes, rng: Rng) -> bytes:
    found = data.decode().splitlines()
    i = rng.choice((0, rng.randrange(len(found)), len(found) - 1))
    cells = found[i].split(",")
    j = rng.randrange(len(cells))
    way = rng.random()
    if way < 0.7:
        cells[j] = rng.choice(CELLS)
    elif way < 0.8:
        del cells[j]
    elif way < 0.9:
        cells.insert(j, rng.choice(CELLS))
    else:
        k = rng.randrange(len(cells))
        cells[j], cells[k] = cells[k], cells[j]
    found[i] = ",".join(cells)
    return ("\n".join(found) + "\n").encode()


def tensors(data: bytes, rng: Rng) -> bytes:
    """A safetensors file with another header, or numbers that are none."""
    size = struct.unpack("<Q", data[:8])[0]
    header, body = data[8 : 8 + size], bytearray(data[8 + size:])
    way = rng.randrange(5)
    if way == 0:
        return struct.pack("<Q", rng.choice((0, 1, size - 1, size + 1, 2**40, 2**63))) + header + bytes(body)
    if way == 1:
        start = 4 * rng.randrange(max(len(body) // 4, 1))
        body[start : start + 4] = struct.pack("<f", rng.choice((float("nan"), float("inf"), 3e38)))
    elif way == 2:
        body[:] = struct.pack("<f", rng.choice((float("nan"), float("inf"), 3e38))) * (len(body) // 4)
    elif way == 3:
        header = json_value(header, rng)
    else:
        body = body[: rng.randrange(len(body) + 1)]
    return struct.pack("<Q", len(header)) + header + bytes(body)


OF_KIND: dict[str, tuple[Mutation, ...]] = {
    "json": (json_value, json_value, json_value, *BYTES), "jsonl": (json_line, json_line, json_line, *BYTES),
    "yaml": (yaml_value, yaml_value, yaml_value, yaml_bomb, *BYTES), "csv": (csv_cell, csv_cell, *BYTES),
    "safetensors": (tensors, tensors, truncate, empty, flip), "text": BYTES}
"""By what a file holds; those that keep its form more often, because they get further."""


def mutated(data: bytes, kind: str, rng: Rng) -> tuple[str, bytes]:
    """The name of a mutation, and what it makes of a file; never the file itself."""
    while True:
        mutation = rng.choice(OF_KIND[kind])
        made = mutation(data, rng)
        if made != data:
            return mutation.__name__, made
