"""A trained run and two devices to search it for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nas.core import evaluation as train
from nas.core.run_dir import RunDir
from tests.nas.conftest import finished, here, trained  # noqa: F401 - fixtures
from tests.nas.stages.search.made_up import write_profile


@pytest.fixture
def searchable(here: Path, finished: Callable[[], None]) -> RunDir:  # noqa: F811
    """The finished run `a` in the working directory, and profiles of the devices `one` and `two`."""
    finished()
    run = RunDir.open("a")
    space = train.prepare(run).space
    write_profile(space, "one")
    write_profile(space, "two", seed=1)
    return run
