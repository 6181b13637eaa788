"""A run that has everything a report can show."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.nas.conftest import finished, here, trained  # noqa: F401 - fixtures
from tests.nas.stages.report.full import fill


@pytest.fixture(scope="session")
def filled(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    """A folder with the run `a`, trained, searched for two devices, extracted from, measured and ranked."""
    folder, before = tmp_path_factory.mktemp("filled"), Path.cwd()
    shutil.copytree(trained, folder, dirs_exist_ok=True)
    os.chdir(folder)
    try:
        fill("a")
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def full(here: Path, filled: Path) -> Callable[[], None]:  # noqa: F811
    """Puts the full run `a` and its profiles into the working directory."""
    return lambda: shutil.copytree(filled / "runs", "runs") and None
