"""`nas run --dry-run`: how long each stage may take, and all together, from the user's own data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nas.pipeline import estimate
from nas.pipeline.config import PipelineConfig
from search_spaces import load_space
from supernet.train.step import Trainer
from tests.nas.runs import WORDS, nas, refused

pytestmark = pytest.mark.usefixtures("here")
TRAINING = {"steps": 40, "batch_size": 2, "device": "cpu", "evaluate_every": 10, "evaluate_limit": 4}


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[Trainer]:
    """The trainers whose steps are tried; a step takes a second, anything else two."""
    found: list[Trainer] = []
    monkeypatch.setattr(estimate, "_step_s", lambda trainer: found.append(trainer) or 1.0)
    monkeypatch.setattr(estimate, "_seconds", lambda call: call() and 2.0 or 2.0)
    monkeypatch.setattr(estimate, "why_too_short", lambda device, space, budget_s: (50.0, "short" * (budget_s == 45)))
    return found


def reviews() -> None:
    rows = [f"{WORDS[i % 13]} {WORDS[(i * 5) % 13]}\tc{i % 4}" for i in range(80)]
    Path("reviews.tsv").write_text("text\tlabel\n" + "\n".join(rows), "utf-8")


def test_steps_are_tried_on_the_users_own_data(tried: list[Trainer]) -> None:
    reviews()
    config = PipelineConfig(run="p", space="encoder-small", task="classification", training=TRAINING,
                            data={"train": "reviews.tsv", "vocab_size": "60"}, search={"trials": 9, "limit": 4},
                            retrain=None)
    found = estimate.estimates(config)
    assert found["train"] == 40 * 1.0 + 4 * 2.0 and "retrain" not in found
    assert found["search"] == estimate.SEARCH_S + 9 * (2.0 + estimate.PROPOSAL_S)
    (trainer,) = tried
    batch = trainer.data.batch(0, 2, 0)
    context = load_space("encoder-small").context
    assert batch.tokens.shape[1] < context, "no longer than the texts are"
    assert trainer.model.space.n_classes == 4 and trainer.model.space.vocab_size == 60  # type: ignore[union-attr]
    assert not Path("runs").exists()


def test_retraining_and_plain_models_count_for_each_model(tried: list[Trainer]) -> None:
    config = PipelineConfig(run="p", space="space.yaml", task="lm", data={"train": "text.txt"}, training=TRAINING,
                            pick=[{"knee": True}, {"top": 2}], retrain={"training": {"steps": 30}}, plain=True,
                            search={"limit": 4})
    found = estimate.estimates(config)
    recipe = config.retrain.recipe(config.run_config().training)  # type: ignore[union-attr]
    assert found["retrain"] >= 3 * 1.5 * recipe.steps and found["plain"] >= 2 * config.all_steps()


def test_profiles_take_their_budgets(tried: list[Trainer]) -> None:
    devices = [{"device": "cpu", "budget": "40s"}, {"device": "cpu", "budget": "2m", "check": 4},
               {"device": "a100-estimated"}]
    config = PipelineConfig(run="p", space="space.yaml", task="lm", data={"train": "text.txt"}, training=TRAINING,
                            devices=devices, search={"limit": 4}, retrain=None)
    assert estimate.estimates(config)["profile"] == 40 + 2 * 120 + estimate.ROOFLINE_S


def test_a_budget_that_is_too_short_is_found_by_the_dry_run(tried: list[Trainer], capsys: Any) -> None:
    Path("p.yaml").write_text("{run: p, space: space.yaml, task: lm, data: {train: text.txt}, search: {limit: 4}, "
                              "devices: [{device: cpu}, {device: cpu, budget: 45s}], retrain: null}", "utf-8")
    found = json.loads(nas(capsys, "run", "p.yaml", "--dry-run", "--json")[1])
    assert {row["stage"]: row["seconds"] for row in found["plan"]}["profile"] == 180 + 50
    assert found["notes"] == ["devices.1.budget: short; the pipeline extends it to this time"]
    assert nas(capsys, "run", "p.yaml", "--dry-run")[1].splitlines()[-1] == found["notes"][0]


def test_the_dry_run_has_a_total(tried: list[Trainer], capsys: Any) -> None:
    Path("p.yaml").write_text("{run: p, space: space.yaml, task: lm, data: {train: text.txt}, search: {limit: 4}}")
    found = json.loads(nas(capsys, "run", "p.yaml", "--dry-run", "--json")[1])
    assert found["seconds"] == pytest.approx(sum(row["seconds"] for row in found["plan"])) and found["seconds"] > 0
    assert nas(capsys, "run", "p.yaml", "--dry-run")[1].splitlines()[-1].startswith("total")


def test_a_text_that_cannot_fill_the_vocabulary_is_a_fault_of_the_dry_run(capsys: Any) -> None:
    reviews()
    Path("p.yaml").write_text("{run: p, space: encoder-small, task: classification, data: {train: reviews.tsv}}")
    assert "vocab_size: the space has 4,096 tokens, but the training text yields only" in refused(
        capsys, "run", "p.yaml", "--dry-run")
