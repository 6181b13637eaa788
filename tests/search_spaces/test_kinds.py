"""A kind whose declaration and module do not go together is refused by name."""

from __future__ import annotations

import types

import pytest

from search_spaces import InputError, plugins
from search_spaces import registry as kinds
from search_spaces.kind import Dim, Kind


class Block:
    def __init__(self, *, width: int, inner: int) -> None: ...


DIM = Dim("inner", int, "inner width")
GOOD = {"name": "theirs", "role": "ffn", "module": Block, "dims": (DIM,), "facts": ("width",)}


@pytest.mark.parametrize(("change", "says"), [
    ({"facts": ()}, "theirs: its module takes 'width', which is neither a declared dim nor a fact"),
    ({"facts": ("width", "bias")}, "theirs: its module does not take 'bias'"),
    ({"facts": ("wdth",)}, "theirs: requests the unknown fact 'wdth'; known facts: width"),
    ({"role": "mixture"}, "theirs: has role 'mixture'; allowed: embedding"),
    ({"name": "conv"}, "declares the kind 'conv', which 'supernet.blocks' already declares"),
])
def test_a_wrong_declaration_is_told(monkeypatch: pytest.MonkeyPatch, change: dict[str, object], says: str) -> None:
    module = types.ModuleType("their_blocks")
    module.KIND = Kind(**{**GOOD, **change})  # type: ignore[attr-defined]
    points = [types.SimpleNamespace(value="their_blocks", name="theirs"),
              types.SimpleNamespace(value="supernet.blocks", name="builtin")]
    found = {"their_blocks": module}
    monkeypatch.setattr(plugins, "entry_points", lambda group: points)
    real = plugins.importlib.import_module
    monkeypatch.setattr(plugins.importlib, "import_module", lambda name: found.get(name) or real(name))
    with pytest.raises(InputError, match="their_blocks") as caught:
        kinds.registry.__wrapped__()
    assert says in str(caught.value)
