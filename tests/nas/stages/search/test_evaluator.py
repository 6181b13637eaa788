"""Evaluations: the same as the task's own, ended early where that is safe, and told where they fail."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from nas import tasks
from nas.core import evaluation as train
from nas.core.run_dir import RunDir
from nas.stages.search.evaluations import Evaluations
from nas.stages.search.evaluator import Evaluation, Evaluator
from nas.stages.search.racing import MIN_BATCHES, Rival, Rivals
from search_spaces import InputError

Maker = Callable[..., Evaluator]


@pytest.fixture
def make(searchable: RunDir) -> Maker:
    prepared = train.prepare(searchable)
    net = train.load_supernet(searchable, prepared.space)
    return lambda **options: Evaluator(net, tasks.get("lm"), prepared, searchable.config().training, **options)


def test_metrics_are_those_of_the_task(make: Maker, searchable: RunDir) -> None:
    evaluate = make(size=3)
    prepared = train.prepare(searchable)
    for seed in range(3):
        arch = prepared.space.sample(random.Random(seed))
        wanted = train.score(evaluate.net, arch, evaluate.task, prepared, searchable.config().training)
        found = evaluate(arch)
        assert found.metrics == pytest.approx(wanted, rel=1e-5)
        assert sum(found.losses) / sum(evaluate.counts) == pytest.approx(wanted["loss"], rel=1e-5)
        assert evaluate(arch) == found


def test_a_limit_takes_fewer_examples(make: Maker) -> None:
    assert len(make(size=1, limit=5).batches) == 5 < len(make(size=1).batches)


def test_a_rival_is_no_worse_in_any_cost_whether_less_or_more_is_better() -> None:
    rivals, rival = Rivals([False, True]), Rival(3.0, ())
    rivals.add([10.0, 5.0], rival)
    assert rivals.best([10.0, 5.0]) is rival and rivals.best([11.0, 4.0]) is rival
    assert rivals.best([9.0, 4.0]) is None, "it costs more"
    assert rivals.best([11.0, 6.0]) is None, "it has less of what should be more"
    only_quality = Rivals([])
    only_quality.add([], rival)
    assert only_quality.best([]) is rival


def test_a_race_is_lost_only_where_it_is_clear() -> None:
    rng = np.random.default_rng(0)
    counts, losses = [10] * 60, rng.normal(30, 5, 60)
    rival = Rival(3.0, tuple(losses))
    worse = losses + 5 + rng.normal(0, 0.5, 60)
    lost = rival.estimate_if_beaten(list(worse[:MIN_BATCHES]), counts)
    assert lost is not None and lost[0] == pytest.approx(3.5, abs=5 * lost[1])
    assert rival.estimate_if_beaten(list(worse[: MIN_BATCHES - 1]), counts) is None, "too few batches"
    assert rival.estimate_if_beaten(list(worse), counts) is None, "all batches were seen: nothing is saved"
    assert rival.estimate_if_beaten(list(losses + rng.normal(0, 3, 60))[:30], counts) is None, "about as good"
    assert rival.estimate_if_beaten(list(losses - 5)[:30], counts) is None, "better"


def test_hardly_anyone_loses_a_race_who_would_have_won_it() -> None:
    rng, wrong = np.random.default_rng(1), 0
    for _ in range(300):
        losses, own = rng.normal(30, 5, (2, 40))
        rival = Rival(3.0, tuple(losses))
        lost = any(rival.estimate_if_beaten(list(own[:n]), [10] * 40) for n in range(1, 40))
        wrong += lost and own.sum() <= losses.sum()
    assert wrong <= 3


def test_a_lost_race_is_an_estimate_with_an_interval(make: Maker, searchable: RunDir) -> None:
    evaluate = make(size=1, split="train", limit=3 * MIN_BATCHES)  # the toy's validation text is too short for a race
    arch = train.prepare(searchable).space.largest()
    whole = evaluate(arch)
    rival = Rival(whole.metrics["loss"] - 2, tuple(loss - 2 * n for loss, n in zip(whole.losses, evaluate.counts)))
    found = evaluate(arch, rival)
    assert found.interval is not None and len(found.losses) == MIN_BATCHES
    assert found.metrics["loss"] == pytest.approx(whole.metrics["loss"], abs=1e-4)
    assert found.metrics["perplexity"] == pytest.approx(math.exp(found.metrics["loss"]))
    assert found.interval[0] <= found.metrics["loss"] <= found.interval[1]


@pytest.mark.parametrize(("error", "says"), [
    (ValueError("bad\nworse"), "ValueError: bad"), (MemoryError(), "out of memory"),
    (ZeroDivisionError(), "ZeroDivisionError"),
    (RuntimeError("CUDA out of memory. Tried"), "out of memory"),
])
def test_what_fails_is_told_and_not_raised(make: Maker, monkeypatch: pytest.MonkeyPatch, searchable: RunDir,
                                           error: Exception, says: str) -> None:
    evaluate = make()

    def fail(*_: object) -> torch.Tensor:
        raise error

    monkeypatch.setattr("nas.stages.search.evaluator.predict", fail)
    found = evaluate(train.prepare(searchable).space.smallest())
    assert says in found.reason and "\n" not in found.reason and not found.metrics


def test_a_loss_that_is_no_number_is_a_failure(make: Maker, searchable: RunDir) -> None:
    evaluate = make()
    with torch.no_grad():
        for weights in evaluate.net.parameters():
            weights.fill_(math.nan)
    assert evaluate(train.prepare(searchable).space.largest()).reason == "the loss is nan"


def test_ctrl_c_is_no_failure_of_an_architecture(make: Maker, monkeypatch: pytest.MonkeyPatch,
                                                 searchable: RunDir) -> None:
    def interrupt(*_: object) -> torch.Tensor:
        raise KeyboardInterrupt

    evaluate = make()
    monkeypatch.setattr("nas.stages.search.evaluator.predict", interrupt)
    with pytest.raises(KeyboardInterrupt):
        evaluate(train.prepare(searchable).space.smallest())


def test_evaluations_are_found_again_but_failures_are_not(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "evaluations.jsonl"
    kept = Evaluations(path, {"weights": "x"})
    whole, estimate = Evaluation({"loss": 1.5}, (1.0, 2.0)), Evaluation({"loss": 2.5}, (3.0,), (2.0, 3.0))
    kept.add("a", whole)
    kept.add("b", estimate)
    kept.add("c", Evaluation({}, reason="broke"))
    with path.open("a") as file:
        file.write('{"key": "d", "metr')  # killed in the middle of a line
    again = Evaluations(path, {"weights": "x"})
    assert (again.get("a"), again.get("b"), again.get("c"), again.get("d")) == (whole, estimate, None, None)
    again.add("d", whole)
    assert len(Evaluations(path, {"weights": "x"})) == 3
    with pytest.raises(InputError, match="under other conditions"):
        Evaluations(path, {"weights": "y"})
    path.write_text(path.read_text().replace('"losses"', '"lossy"'))
    with pytest.raises(InputError, match=r"line 2: is damaged \(losses: Field required\); delete it"):
        Evaluations(path, {"weights": "x"})
