from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nas.core.data_index import fitted_space
from nas.core.rankings import read_trained
from nas.core.run_dir import RunDir
from nas.stages.search.calibration import fit
from search_spaces import Architecture, load_space
from tests.nas.runs import nas, refused
from tests.nas.stages.search.test_search import rows


def depth_only(arch: Architecture, loss: float) -> list[float]:
    return [loss, float(arch.depth)]


def samples(n: int) -> list[Architecture]:
    space, rng = load_space("lm-tiny"), random.Random(0)
    return [space.sample(rng) for _ in range(n)]


def test_a_bias_that_follows_depth_is_removed() -> None:
    archs, rng = samples(30), np.random.default_rng(0)
    inherited = rng.uniform(3, 4, 30)
    trained = inherited - 0.2 * np.array([arch.depth for arch in archs]) + 0.5 + rng.normal(0, 1e-3, 30)
    found = fit(archs, inherited, trained, depth_only)
    corrected = [found(arch, loss) for arch, loss in zip(archs, inherited)]
    assert np.abs(corrected - trained).max() < 0.02
    assert found.error < 0.1 * found.error_before
    assert found.tau_before < found.tau <= 1


def test_noise_alone_is_left_alone() -> None:
    """Without a pattern the correction is a constant, so that no ranking changes."""
    archs, rng = samples(24), np.random.default_rng(1)
    inherited = rng.uniform(3, 4, 24)
    trained = inherited - 0.3 + rng.choice([-0.1, 0.1], 24)
    found = fit(archs, inherited, trained, depth_only)
    corrections = [found(arch, loss) - loss for arch, loss in zip(archs, inherited)]
    assert np.std(corrections) < 0.05
    assert np.mean(corrections) == pytest.approx(-0.3, abs=0.05)


def write_trained(run: RunDir, n: int, steps: int = 50) -> list[Architecture]:
    """Results as `nas rank` leaves them; deeper models are better than inherited losses say."""
    space, rng = fitted_space(run), random.Random(0)
    archs = list({arch.key: arch for arch in (space.sample(rng) for _ in range(200))}.values())[:n]
    for arch in archs:
        folder = run.path / "rank" / f"{arch.key[:16]}-steps{steps}-seed0"
        folder.mkdir(parents=True)
        (folder / "architecture.json").write_text(arch.to_json(), "utf-8")
        (folder / "result.json").write_text(json.dumps({
            "schema_version": 1, "key": arch.key, "seed": 0, "steps": steps,
            "metrics": {"loss": 4.0 - arch.depth}}), "utf-8")
    return archs


def test_a_search_minimises_the_calibrated_loss(searchable: RunDir, capsys: Any) -> None:
    write_trained(searchable, 12)
    write_trained(searchable, 2, steps=10)  # shorter trainings are not comparable
    assert len(read_trained(searchable)) == 12
    search = ("search", "a", "--calibrate", "a", "--trials", "16", "--limit", "12")
    code, _, err = nas(capsys, *search)
    assert (code, err) == (0, "")
    space = fitted_space(searchable)
    table = [row for row in rows() if row["state"] == "COMPLETE"]
    depths = {row["key"]: space.decode({name: _typed(row[name], values) for name, values in space.genes.items()}).depth
              for row in table}
    losses = {depth: [float(row["calibrated_loss"]) for row in table if depths[row["key"]] == depth]
              for depth in (1, 2)}
    assert max(losses[2]) < min(losses[1])
    data = json.loads(Path("runs/a/pareto.json").read_text("utf-8"))
    assert data["objectives"] == ["calibrated_loss", "params"]
    assert nas(capsys, "extract", "a", "--max", "calibrated_loss=9")[0] == 0
    assert nas(capsys, "report", "a")[0] == 0
    assert nas(capsys, "search", "a", "--trials", "18")[0] == 0  # it resumes
    (searchable.path / "rank" / next(iter((searchable.path / "rank").iterdir())).name / "result.json").unlink()
    assert "the set of models trained from scratch in a changed since the search started" in refused(capsys, *search)


def _typed(text: str, values: Any) -> Any:
    return next(value for value in values if str(value) == text)


def test_too_few_trainings_are_refused(searchable: RunDir, capsys: Any) -> None:
    write_trained(searchable, 3)
    error = refused(capsys, "search", "a", "--calibrate", "a")
    assert "a has 3 architectures of this space that were trained from scratch; 8 are needed; run nas rank a" in error


def test_a_damaged_training_is_named(searchable: RunDir, capsys: Any) -> None:
    write_trained(searchable, 9)
    path = next(searchable.path.glob("rank/*/architecture.json"))
    path.write_text("[]", "utf-8")
    assert path.parent.name in refused(capsys, "search", "a", "--calibrate", "a")


def test_an_unknown_run_is_named(searchable: RunDir, capsys: Any) -> None:
    assert "nowhere" in refused(capsys, "search", "a", "--calibrate", "nowhere")
