"""`nas profile --from`: whole models that were measured elsewhere."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from hardware_profiles import LatencyModel
from nas.core.timing.workloads import Workload
from nas.stages.profile.choice import draw_models
from nas.stages.profile.work import work_of
from search_spaces import load_space
from tests.nas.stages.profile.made_up import (
    AT,
    made_up_machine,  # noqa: F401 - a fixture, used by all tests here
    profile,
)


def measurements(path: Path, law, n: int = 40, column: str = "architecture") -> None:
    archs = draw_models(load_space("lm-tiny"), n, "measured elsewhere", avoid=set())
    rng = np.random.default_rng(0)
    lines = [f"{column},ms"]
    for arch in archs:
        text = arch.to_json().replace('"', '""') if column == "architecture" else arch.key
        lines.append(f'"{text}",{law(arch) * (1 + 0.01 * rng.standard_normal())}')
        (path.parent / f"{arch.key}.json").write_text(arch.to_json())
    path.write_text("\n".join(lines) + "\n")


@lru_cache
def whole_law(arch) -> float:
    work = work_of(Workload("prefill", arch), AT)
    return 1.0 + work.macs / 1e7 + work.kernels / 50


@pytest.mark.parametrize("column", ["architecture", "key"])
def test_whole_models_alone_make_a_profile(column: str, tmp_path: Path) -> None:
    measurements(tmp_path / "times.csv", whole_law, column=column)
    assert profile("--from", "times.csv") == 0
    latency = LatencyModel.load("made-up")
    fresh = draw_models(load_space("lm-tiny"), 10, "never seen", avoid=set())
    errors = latency.predict_many(fresh) / np.array([whole_law(arch) for arch in fresh]) - 1
    assert np.abs(errors).mean() < 0.05
    low, high = latency.interval(fresh[0])
    assert low < latency.predict(fresh[0]) < high


def test_latencies_that_do_not_depend_on_the_architecture_are_refused(tmp_path: Path, capsys) -> None:
    measurements(tmp_path / "times.csv", lambda arch: 5.0)
    assert profile("--from", "times.csv") == 2
    assert "does not depend on the architecture" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "says"), [
    ("a,b\n1,2\n", "needs a column ms or latency_ms"), ("key,ms\nabc,1\n", "the key 'abc' is not a known architecture"),
    ("architecture,ms\n{,1\n", "line 2: not valid JSON"),
])
def test_wrong_measurements_say_where(text: str, says: str, tmp_path: Path, capsys) -> None:
    (tmp_path / "times.csv").write_text(text)
    assert profile("--from", "times.csv") == 2
    assert says in capsys.readouterr().err


def test_a_fit_does_not_replace_measured_units(tmp_path: Path, capsys) -> None:
    assert profile() == 0
    measurements(tmp_path / "times.csv", whole_law, n=10)
    assert profile("--from", "times.csv") == 2
    assert "contains measured units" in capsys.readouterr().err
    assert profile("--from", "times.csv", "--check") == 2


def test_a_file_with_a_header_only_is_refused(tmp_path: Path, capsys) -> None:
    (tmp_path / "times.csv").write_text("architecture,ms\n")
    assert profile("--from", "times.csv") == 2
    assert "too few" in capsys.readouterr().err
