"""What was compiled of other code is not used again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hardware_profiles import load_profile
from hardware_profiles.profile import Conditions
from nas.core.timing import sources
from nas.core.timing.compiling import Compiler
from nas.core.timing.workloads import Workload
from nas.stages.profile.choice import units_of
from search_spaces import load_space

AT = Conditions(batch=1, length=16, past=8)


@pytest.fixture(name="package")
def package_fixture(tmp_path: Path, monkeypatch) -> Path:
    folder = tmp_path / "some_blocks"
    folder.mkdir()
    texts = {"__init__": "", "block": "import json\nfrom some_blocks.inner import GAIN\nfrom . import beside\n",
             "inner": "GAIN = 1\n", "beside": "", "other": ""}
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.startswith("some_blocks")]:
        del sys.modules[name]


def now() -> str:
    sources.digest.cache_clear()
    return sources.digest(frozenset({"some_blocks.block"}))


@pytest.mark.parametrize(("changed", "matters"), [("block", True), ("inner", True), ("beside", True), ("other", False)])
def test_a_digest_is_of_a_module_and_all_it_imports(changed: str, matters: bool, package: Path) -> None:
    before = now()
    assert now() == before
    path = package / f"{changed}.py"
    path.write_text(path.read_text() + "\nMORE = 2\n")
    assert (now() != before) is matters


def test_code_of_a_block_tells_compiled_files_apart(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    compiler = Compiler(load_profile("cpu-onnxruntime"), AT, tmp_path)
    works = [Workload("prefill", unit, 2) for unit in units_of(load_space("lm-tiny"), "prefill")]
    before = [compiler.file(work) for work in works]
    real = sources.digest
    monkeypatch.setattr(sources, "digest", lambda names: real(names) + "!" * ("supernet.blocks.attention" in names))
    changed = {work.kinds for work, file in zip(works, before) if compiler.file(work) != file}
    assert changed == {frozenset({"attention"})}
