"""`nas train --init` with imported models: their task, data and tokenizer, a new head, hidden states as targets."""

from __future__ import annotations

import json

import pytest
import torch

from nas import api
from nas.core.evaluation import prepare
from nas.core.run_dir import RunDir
from nas.stages.train.init import load_init, teaches
from nas.stages.train.training import make_trainer
from search_spaces import InputError, load_space
from supernet.batch import Batch
from supernet.train.teaching import Teacher
from supernet.transformer import Transformer
from tests.contracts.test_importers import SMALL
from tests.nas.stages.retrain.test_adapting import TRAINING, model, rows  # noqa: F401 - a fixture

pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("here")
OPTIONS = {**TRAINING, "n_random": 1}


def starting_point(name: str):
    """The trainer of a run before its first step."""
    run = RunDir.open(name)
    start = load_init(run, run.config().training)
    return make_trainer(prepare(run), run.config().training, model=start, teacher=start if teaches(run) else None)


def test_task_and_data_are_those_of_the_model(rows: dict[str, str]) -> None:  # noqa: F811
    model("BertModel", SMALL)
    tuned = api.retrain("ours", TRAINING, task="classification", data=rows, run="own")
    api.space_from(tuned, "around.yaml")
    run = api.train("around.yaml", None, "b", training=OPTIONS, init=tuned, check=False)
    config = run.config()
    assert config.task == "classification" and config.data == {**rows, "tokenizer": "ours"}
    assert (config.training.optimiser, config.training.distill_features) == ("adamw", 0.1), "settings of fine-tuning"
    trainer = starting_point("b")
    assert trainer.teacher is not None and trainer.teacher.model.arch == tuned.arch
    batch = trainer.data.batch(0, 4, 0)
    with torch.no_grad():
        wanted = tuned.model()(batch.tokens, mask=batch.mask)
        assert (trainer.model.eval()(tuned.arch, batch.tokens, mask=batch.mask) - wanted).abs().max() < 1e-5


def test_a_model_with_a_new_head_does_not_teach(rows: dict[str, str]) -> None:  # noqa: F811
    source = model("BertModel", SMALL)
    api.space_from("ours", "around.yaml", classes=2)
    with pytest.raises(InputError, match="task: is needed: ours is an imported encoder without a task"):
        api.train("around.yaml", None, "b", training=OPTIONS, init="ours")
    run = api.train("around.yaml", "classification", "b", rows, OPTIONS, init="ours", check=False)
    assert run.config().data["tokenizer"] == "ours"
    trainer = starting_point("b")
    assert trainer.teacher is None
    new = json.loads((run.init_path / "ordering.json").read_text("utf-8"))["new_tensors"]
    assert new == ["head.classes.weight", "head.classes.bias"]
    largest = prepare(run).space.largest()
    assert largest.head.kind == "classifier" and largest.encoder == source.arch.encoder


def test_hidden_states_are_compared_by_prefix() -> None:
    """A narrower model with the first channels of the teacher's states has no loss, whatever its scale."""
    arch = load_space("encoder-small").largest()
    teacher = Teacher(Transformer(arch, seed=0))
    batch = Batch(torch.zeros(2, 3, dtype=torch.long), torch.zeros(2, dtype=torch.long),
                  mask=torch.tensor([[True, True, False], [True, True, True]]))
    theirs = tuple(torch.randn(2, 3, arch.width) for _ in range(arch.depth))
    same = tuple(3 * each[..., :5] for each in theirs)
    assert teacher.cosine_feature_loss(arch, same, theirs, batch) < 1e-6
    padded = tuple(each.masked_fill(~batch.mask[..., None], 9.0) for each in same)
    assert teacher.cosine_feature_loss(arch, padded, theirs, batch) < 1e-6, "padding does not count"
    assert teacher.cosine_feature_loss(arch, tuple(-each for each in same), theirs, batch) == pytest.approx(2.0)


def test_the_weight_of_hidden_states_matters(rows: dict[str, str]) -> None:  # noqa: F811
    model("BertModel", SMALL)
    tuned = api.retrain("ours", TRAINING, task="classification", data=rows, run="own")
    api.space_from(tuned, "around.yaml")
    stepped = []
    for name, weight in (("without", 0.0), ("with", 5.0)):
        settings = {**OPTIONS, "steps": 1, "distill_features": weight, "strategy": "single"}
        api.train("around.yaml", None, name, training=settings, init=tuned, check=False)
        trainer = starting_point(name)
        trainer.step()
        stepped.append(trainer.model.state_dict())
    assert any(not torch.equal(stepped[0][key], stepped[1][key]) for key in stepped[0])
