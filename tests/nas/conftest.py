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
