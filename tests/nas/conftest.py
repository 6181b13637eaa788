"""A working directory, and a finished run, trained once for all tests that only need one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.nas.runs import options, write_inputs


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a space, a text and the finished run `a`; to be copied, never changed."""
    from nas import cli

    folder, before = tmp_path_factory.mktemp("trained"), Path.cwd()
    write_inputs(folder)
    os.chdir(folder)
    try:
        assert cli.main(options("a")) == 0
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def finished(trained: Path) -> Callable[[], None]:
    """Puts the finished run `a` into the working directory."""
    return lambda: shutil.copytree(trained / "runs", "runs") and None


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of its own, with a space and a text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    write_inputs(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained and searched run of each task, under its name; to be copied, never changed.

    Each run has a device `on-TASK`, and a search for its loss there.
    """
    from tests.nas.families import search_all

    folder, before = tmp_path_factory.mktemp("searched"), Path.cwd()
    os.chdir(folder)
    try:
        search_all()
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def families(here: Path, searched: Path) -> Path:
    """The runs of `searched` in the working directory."""
    shutil.copytree(searched / "runs", "runs")
    return here


@pytest.fixture(scope="session")
def extracted(searched: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of `searched`, the knee of each extracted; to be copied, never changed."""
    from tests.nas.families import extract_all

    folder, before = tmp_path_factory.mktemp("extracted"), Path.cwd()
    shutil.copytree(searched / "runs", folder / "runs")
    os.chdir(folder)
    try:
        extract_all()
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def subnets(here: Path, extracted: Path) -> dict[str, Path]:
    """A subnet of each task, in its run in the working directory."""
    from tests.nas.families import TASKS, only

    shutil.copytree(extracted / "runs", "runs")
    return {task: only(task) for task in TASKS}
