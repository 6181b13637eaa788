"""A machine whose times are made up. Tests that import `made_up_machine` all run on it."""

from __future__ import annotations

import pytest
import torch

from hardware_profiles.profile import Conditions
from hardware_profiles.runtimes import torch_eager
from nas.cli import main
from nas.stages.profile.work import _Traffic

AT = Conditions(batch=1, length=128, past=64)
DEVICE = """
schema_version: 1
name: made-up
description: a machine that takes a microsecond for every kernel and for every ten thousand bytes
kind: cpu
runtime: torch-eager
timing: {least_rounds: 3, most_rounds: 3, calibration: 8, copies: 2}
"""


def made_up_seconds(module, inputs) -> float:
    """A law of what the module does when it runs."""
    with torch.no_grad(), _Traffic() as traffic:
        module(*inputs)
    return 1e-4 + 1e-10 * traffic.moved_bytes + 1e-6 * traffic.kernels


@pytest.fixture(autouse=True, name="made_up")
def made_up_machine(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    calls = {"n": 0, "slower": 1.0}

    def load(module, inputs, options):
        seconds = made_up_seconds(module, inputs)

        def run() -> float:
            calls["n"] += 1
            return calls["slower"] * seconds * (1 + 1e-4 * (calls["n"] % 7))
        return run
    monkeypatch.setattr(torch_eager, "load", load)
    monkeypatch.setattr("nas.stages.profile.profiling.measurable", lambda _: False)
    (tmp_path / "made-up.yaml").write_text(DEVICE)
    return calls


def profile(*arguments: str) -> int:
    return main(["profile", "made-up.yaml", "--space", "lm-tiny", "--budget", "10m", *arguments])
