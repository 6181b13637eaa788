"""Searches of classifiers and translators: other families, other metrics, more of which is better."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from nas.core import evaluation as train
from nas.core.run_dir import RunDir
from tests.nas.runs import nas
from tests.nas.stages.search.made_up import write_profile

SETTINGS = ("steps=3", "batch_size=4", "warmup=0", "evaluate_every=0", "evaluate_limit=4", "n_random=1", "device=cpu")
CLASSIFIER = """
{schema_version: 1, name: toys, family: encoder, vocab_size: 60, context: 16, n_classes: 2, width: [8, 12],
 embedding: {lookup: {}}, head: {classifier: {}},
 encoder: {slots: 2, depth: {keep: first, layers: [1, 2]}, layers: {plain: {
   mixer: {attention: {n_heads: 2}}, ffn: {ffn: {inner: [1x, 2x]}}}}}}
"""
TRANSLATOR = """
{schema_version: 1, name: toys2s, family: seq2seq, vocab_size: 60, context: 32, width: [8, 12],
 embedding: {lookup: {}}, head: {tied: {}},
 encoder: {slots: 2, depth: {keep: first, layers: [1, 2]}, layers: {plain: {
   mixer: {attention: {n_heads: 2}}, ffn: {ffn: {inner: 2x}}}}},
 decoder: {slots: 1, layers: {plain: {
   mixer: {attention: {n_heads: 2}}, cross: {cross_attention: {n_heads: 2}}, ffn: {ffn: {inner: [1x, 2x]}}}}}}
"""
DATA = {"classification": ("text\tlabel\n", [(f"row {i} is {'good' if i % 2 else 'bad'}", i % 2) for i in range(60)]),
        "translation": ("source\ttarget\n", [(f"number {i}", f"nummer {i}") for i in range(60)])}


@pytest.mark.parametrize(("task", "space", "quality"), [("classification", CLASSIFIER, "accuracy"),
                                                        ("translation", TRANSLATOR, "bleu")])
def test_every_family_is_searched_for_its_own_metric(here: Path, capsys: Any, task: str, space: str,
                                                     quality: str) -> None:
    head, rows = DATA[task]
    Path("space.yaml").write_text(space, "utf-8")
    Path("rows.tsv").write_text(head + "".join(f"{one}\t{other}\n" for one, other in rows), "utf-8")
    code, _, err = nas(capsys, "train", "--space", "space.yaml", "--task", task, "--data", "train=rows.tsv", "--data",
                       "vocab_size=60", "--run", "b", *(f"--set={setting}" for setting in SETTINGS))
    assert (code, err) == (0, "")
    write_profile(train.prepare(RunDir.open("b")).space, "one")
    code, _, err = nas(capsys, "search", "b", "--objective", quality, "--objective", "latency:one", "--device", "one",
                       "--trials", "8", "--limit", "6")
    assert (code, err) == (0, "")
    with Path("runs/b/trials.csv").open(encoding="utf-8", newline="") as file:
        done = [row for row in csv.DictReader(file) if row["state"] == "COMPLETE"]
    points = {row["key"]: (-float(row[quality]), float(row["latency:one"])) for row in done}
    best = {key for key, (a, b) in points.items()
            if not any(c <= a and d <= b and (c, d) != (a, b) for c, d in points.values())}
    front = json.loads(Path("runs/b/pareto.json").read_text("utf-8"))["front"]
    assert front and {points[key] for key in front} == {points[key] for key in best}
