"""`run.py` of exports: short enough to read before it is run."""

from __future__ import annotations

import pytest

from nas.stages.export.formats import executorch, onnx, torch_export
from nas.stages.export.run_text import BODIES, run_text


@pytest.mark.parametrize("does", BODIES)
@pytest.mark.parametrize("module", [executorch, onnx, torch_export], ids=lambda module: module.SUFFIX[1:])
def test_it_is_short_and_needs_nothing_of_ours(module, does):
    text = run_text(does, "a runtime", module.IMPORTS, module.LOAD, "a text")
    compile(text, "run.py", "exec")
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(lines) <= (35 if "greedy" in text else 23)
    assert not any(name in text for name in ("import nas", "from nas", "supernet", "search_spaces"))
