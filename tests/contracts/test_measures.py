"""The suite of measures over every installed one, and measures from somebody else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nas.core.measures import registry
from nas.testing import MeasureContract, suites

globals().update(suites(MeasureContract, *registry()))

PLUGIN = '''
from nas.core.measures import MeasureKind

class Depth(MeasureKind):
    name, label, maximise = "depth", "layers", True

    def price(self, arch, at):
        return arch.depth

DEPTH = Depth()
'''
SCRIPT = '''
from nas.core.measures import parse_limit, parse_measure
from nas.core.pricing import Prices
from search_spaces import load_space
arch = load_space("lm-tiny").largest()
assert Prices({}, arch.context).all_of(arch)["depth"] == arch.depth
assert parse_measure("depth", {}).maximise and parse_limit("depth=3", {}).value == 3
'''


def run(folder: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), str(Path(__file__).parents[2])])
    return subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path, **variables},
                          capture_output=True, text=True, check=False)


@pytest.mark.parametrize("way", ["entry point", "file"])
def test_a_measure_of_somebody_else_needs_no_change_here(way: str, tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(PLUGIN, "utf-8")
    metadata = tmp_path / "theirs-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n", "utf-8")
    if way == "entry point":
        (metadata / "entry_points.txt").write_text("[nas.measures]\ntheirs = theirs\n", "utf-8")
    variables = {"NAS_PLUGINS": str(tmp_path / "theirs.py")} if way == "file" else {}
    done = run(tmp_path, SCRIPT, **variables)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("before", "after", "says"), [
    ('"depth"', '"params"', "params"), ('"depth"', '"a:b"', "'a:b' is not a valid name of a measure"),
    ("name, label, maximise =", "name, nothing, maximise =", "label")])
def test_a_wrong_declaration_is_refused_in_a_sentence(before: str, after: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(PLUGIN.replace(before, after), "utf-8")
    done = run(tmp_path, "from nas.core.measures import registry; registry()", NAS_PLUGINS=str(tmp_path / "theirs.py"))
    assert done.returncode and "InputError" in done.stderr and says in done.stderr.splitlines()[-1]
