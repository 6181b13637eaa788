"""Commands that only look do not wait for libraries that take seconds to import."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("torch", "ray", "optuna")
CODE = """
import contextlib, io, json, sys
with contextlib.redirect_stdout(io.StringIO()):
    {}
print(json.dumps(sorted(set(sys.modules) & set({}))))
"""


@pytest.mark.parametrize("statement", [
    "import nas.api", "import supernet, hardware_profiles, search_spaces",
    *(f"from nas.cli import main; assert main([{command!r}]) == 0"
      for command in ("--help", "spaces", "devices", "blocks")),
])
def test_nothing_heavy_is_imported(statement: str) -> None:
    code = CODE.format(statement, HEAVY)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(result.stdout) == []
