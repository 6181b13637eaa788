"""Transports, samplers and tasks from outside: found by file and by entry point, and refused in a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hardware_profiles import transports
from nas import tasks
from nas.stages.search import samplers
from search_spaces import InputError
from tests.contracts.outside import named

TRANSPORT = """
from hardware_profiles.transports.local import LocalSettings as SETTINGS, LocalTransport as TRANSPORT, missing
HELP, TOOL = "this machine, by pigeon", "pigeon"
"""
SAMPLER = """
from optuna.samplers import RandomSampler
HELP, PURE = "throws dice", False
def make(problem, seed):
    return RandomSampler(seed=seed)
"""
TASK = """
from nas.tasks.classification import Classification
class Verdict(Classification):
    name, help = "verdict", "guilty or not"
TASK = Verdict()
"""
SORTS: dict[str, tuple[Any, str, str, str, tuple[str, str]]] = {
    "transports": (transports, TRANSPORT, "pigeon_post", "pigeon-post", ("HELP, TOOL", "OTHER, TOOL")),
    "samplers": (samplers, SAMPLER, "throwing_dice", "throwing-dice", ("HELP, PURE", "OTHER, PURE")),
    "tasks": (tasks, TASK, "a_verdict", "verdict", ('"guilty or not"', '""')),
}


@pytest.mark.parametrize("sort", SORTS)
def test_a_file_of_the_user_adds_one(sort: str, tmp_path: Path) -> None:
    registry, text, file, name, _ = SORTS[sort]
    before = set(registry.names())
    with named(tmp_path, **{file: text}):
        assert set(registry.names()) - before == {name}
        assert registry.get(name) is not None
    assert set(registry.names()) == before
    with pytest.raises(InputError, match=f"'?{name}'? ?.*allowed: "):
        registry.get(name)


@pytest.mark.parametrize("sort", SORTS)
def test_what_a_file_lacks_is_named(sort: str, tmp_path: Path) -> None:
    registry, text, file, _, without = SORTS[sort]
    lacking = {f"{file}_lacking": text.replace(*without)}
    with named(tmp_path, **lacking), pytest.raises(InputError, match="(?i)help") as refused:
        registry.names()
    assert f"{file}_lacking" in str(refused.value)


@pytest.mark.parametrize("sort", SORTS)
def test_a_name_that_is_taken_is_refused(sort: str, tmp_path: Path) -> None:
    registry, text, file, name, _ = SORTS[sort]
    files = {"first": text, "second": text} if sort == "tasks" else {"local" if sort == "transports" else "tpe": text}
    said = "a \\w+ .* already exists|another module is named"
    with pytest.raises(InputError, match=said), named(tmp_path, **files):
        registry.names()


def test_packages_add_them_by_entry_points(tmp_path: Path) -> None:
    for _, text, file, _, _ in SORTS.values():
        (tmp_path / f"{file}.py").write_text(text, "utf-8")
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n", "utf-8")
    points = "".join(f"[nas.{sort}]\ntheirs = {file}\n" for sort, (_, _, file, _, _) in SORTS.items())
    (info / "entry_points.txt").write_text(points, "utf-8")
    script = ("from hardware_profiles import transports\nfrom nas import tasks\n"
              "from nas.stages.search import samplers\nprint(*transports.names(), *samplers.names(), *tasks.names())")
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path}, capture_output=True,
                          text=True, check=True)
    assert {name for _, _, _, name, _ in SORTS.values()} <= set(done.stdout.split())
