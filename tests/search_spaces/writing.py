"""Small space files written as data, for tests."""

from __future__ import annotations

import copy
from typing import Any

from search_spaces import SearchSpace
from search_spaces.files.loader import space_from_data

LM: dict[str, Any] = {
    "schema_version": 1,
    "name": "small",
    "family": "lm",
    "vocab_size": 32,
    "context": 8,
    "width": 16,
    "embedding": {"lookup": {}},
    "head": {"tied": {}},
    "decoder": {
        "slots": 2,
        "layers": {"plain": {"mixer": {"attention": {"n_heads": 2}}, "ffn": {"ffn": {"inner": "2x"}}}},
    },
}


def changed(**changes: Any) -> dict[str, Any]:
    """The small file with values put at dotted paths (`decoder__slots=3`); `...` deletes a key."""
    data = copy.deepcopy(LM)
    for path, value in changes.items():
        *parents, last = path.split("__")
        node = data
        for name in parents:
            node = node.setdefault(name, {})
        if value is ...:
            del node[last]
        else:
            node[last] = value
    return data


def small(**changes: Any) -> SearchSpace:
    return space_from_data(changed(**changes), "small.yaml")
