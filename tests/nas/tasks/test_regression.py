"""Text regression: the suite of tasks, bad labels, and every stage from a table to a prediction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from nas import api, tasks
from nas.testing import TaskContract
from nas.testing.tasks import N_ROWS, sentence
from search_spaces import InputError, load_space
from supernet.batch import Batch
from tests.nas.runs import nas, refused

SPACE = """
{schema_version: 1, name: toys, family: encoder, vocab_size: 60, context: 16, n_classes: 2, width: [8, 12],
 embedding: {lookup: {}}, head: {classifier: {}},
 encoder: {slots: 2, depth: {keep: first, layers: [1, 2]}, layers: {plain: {
   mixer: {attention: {n_heads: 2}}, ffn: {ffn: {inner: [1x, 2x]}}}}}}
"""


def number(i: int) -> float:
    """Longer sentences have larger numbers, far from 0."""
    return 1000.0 + 50.0 * len(sentence(i).split())


def write(path: Path, labels: dict[int, str] = {}) -> dict[str, str]:  # noqa: B006
    rows = (f"{sentence(i)},{labels.get(i, number(i))}\n" for i in range(N_ROWS))
    path.write_text("review,score\n" + "".join(rows), "utf-8")
    return {"train": str(path), "text": "review", "label": "score"}


class TestRegression(TaskContract):
    name = "regression"

    def data(self, folder: Path) -> dict[str, str]:
        return write(folder / "table.csv")


@pytest.mark.parametrize(("labels", "says"), [
    ({3: "good"}, "label: 1 of 60 rows of train have a label that is not a finite number, such as 'good'"),
    ({3: "nan", 4: "inf"}, "label: 2 of 60 rows of train have a label that is not a finite number, such as 'nan'"),
    ({3: " "}, "label: 1 of 60 rows of train have no label"),
    (dict.fromkeys(range(N_ROWS), "7"), "the training rows have only the number 7; two or more are needed")])
def test_bad_labels_get_one_sentence(labels: dict[int, str], says: str, tmp_path: Path) -> None:
    data = write(tmp_path / "table.csv", labels)
    held_out = {"valid": data["train"], "test": data["train"]}
    with pytest.raises(InputError) as refusal:
        tasks.get("regression").check_data({**data, **held_out})
    assert says in str(refusal.value) and "\n" not in str(refusal.value)


def test_scores_are_those_of_scipy_and_a_constant_knows_nothing(tmp_path: Path) -> None:
    task, space = tasks.get("regression"), load_space("encoder-small")
    prepared = task.prepare({**write(tmp_path / "table.csv"), "vocab_size": "60"}, space, tmp_path / "data", 0)
    mean, deviation = prepared.scale or (0.0, 0.0)
    train = np.concatenate([batch.labels.numpy() for batch in prepared.train.in_order(7)])
    assert abs(train.mean()) < 1e-5 and train.std() == pytest.approx(1) and 1050 < mean < 1300 and deviation > 50
    assert prepared.space.n_classes == 1 and prepared.labels == ("label",)

    def lengths(batch: Batch) -> torch.Tensor:
        return batch.tokens.ne(0).sum(1, keepdim=True).float()

    found = task.evaluate(lengths, prepared, "train", size=8, limit=None, full=True)
    pairs = [(lengths(batch)[:, 0], batch.labels) for batch in prepared.train.in_order(8)]
    said, true = (torch.cat(each) for each in zip(*pairs))
    assert found["loss"] == pytest.approx(float((said - true).square().mean()))
    assert found["spearman"] == pytest.approx(spearmanr(said, true).statistic) and found["pearson"] > 0.9
    constant = task.evaluate(lambda batch: torch.zeros(len(batch.tokens), 1), prepared, "train", size=8, limit=None,
                             full=True)
    assert constant == {"loss": pytest.approx(1), "spearman": 0.0, "pearson": 0.0}


def test_every_stage_works_on_numbers(here: Path, capsys: Any) -> None:
    """From a table to a prediction: a dozen seconds, for it runs all stages."""
    Path("space.yaml").write_text(SPACE, "utf-8")
    data = [f"--data={key}={value}" for key, value in {**write(Path("table.csv")), "vocab_size": "60"}.items()]
    train = ["train", "--space", "space.yaml", "--task", "regression", *data, "--run", "r"]
    sets = ("batch_size=16", "lr=0.01", "warmup=5", "evaluate_every=0", "n_random=1", "device=cpu")
    settings = [f"--set={each}" for each in sets]
    assert "label_smoothing: 0.1 is not allowed where a model predicts a number" in refused(
        capsys, *train[:-1], "smooth", *settings, "--set=steps=2", "--set=label_smoothing=0.1")
    assert nas(capsys, *train, *settings, "--set=steps=60")[0] == 0
    search = ["search", "r", "--objective", "params", "--trials", "6", "--objective"]
    assert nas(capsys, *search, "spearman")[0] == nas(capsys, *search, "loss", "--fresh")[0] == 0
    assert nas(capsys, "extract", "r", "--knee")[0] == 0
    (folder,) = (path for path in Path("runs/r/subnets").iterdir() if path.name != ".lock")
    assert nas(capsys, "retrain", str(folder), "--set=steps=40", "--set=lr=0.01", "--out", "trained")[0] == 0
    assert nas(capsys, "compress", "trained", "--int8", "--out", "small")[0] == 0
    (metrics,) = api.evaluate("trained", split="valid").values()
    assert metrics["pearson"] > 0.8 and metrics["loss"] < 0.5
    for options in (("onnx",), ("onnx", "--int8"), ("huggingface",)):
        code, _, err = nas(capsys, "export", "trained", "--format", *options)
        assert code == 0, err
    record = json.loads(Path("trained/exports/onnx/export.json").read_text("utf-8"))
    assert record["label_mean"] > 1000 and record["label_deviation"] > 50
    config = json.loads(Path("trained/exports/huggingface/config.json").read_text("utf-8"))
    assert config["problem_type"] == "regression" and config["id2label"] == {"0": "label"}
    short, long = (each.value for each in api.predict("trained", [sentence(6), sentence(5)]))
    assert 900 < short < long < 1500
    code, out, _ = nas(capsys, "predict", "small", sentence(5))
    value, text = out.rstrip("\n").split("\t")
    assert code == 0 and text == sentence(5) and float(value) == pytest.approx(long, rel=0.1)
    card = Path("trained/README.md").read_text("utf-8")
    assert "Text regression model" in card and 'nas predict . "a text"' in card and "x output" in card
    assert nas(capsys, "report", "r")[0] == 0
