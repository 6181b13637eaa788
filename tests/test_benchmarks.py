"""Benchmarks are run by hand, so a renamed import would stay unnoticed: every one is imported here."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("[a-z]*.py")), ids=lambda path: path.stem)
def test_a_benchmark_imports_and_has_a_command(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in [name for name in sys.modules if (FOLDER / f"{name}.py").is_file()]:
        monkeypatch.delitem(sys.modules, name)
    assert callable(importlib.import_module(path.stem).main)
