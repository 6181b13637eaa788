"""A small complete run, and which commands read each of its files."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from hardware_profiles.runtimes import torch_eager
from nas import cli
from nas.core.run_dir import write_json
from tests.nas.runs import options, write_inputs
from tests.nas.stages.profile.made_up import DEVICE, made_up_seconds
from tests.nas.stages.report.full import fill

PIPELINE = """
schema_version: 1
run: b
space: space.yaml
task: lm
data: {train: text.txt, vocab_size: '60'}
training: {steps: 3, batch_size: 2, device: cpu, lr: 0.01}
devices:
  - {device: made-up.yaml, budget: 10s, check: 4}
search: {trials: 5, limit: 4, sampler: random, warm_start: [a], max: [params=50k]}
pick:
  - {max: [params=50k]}
  - {knee: true}
retrain: {init: inherit, training: {steps: 2}}
export: [{format: onnx, int8: false}]
plain: true
"""
ROWS = "text,label\n" + "".join(f"the quick fox number {i},{'good' if i % 2 else 'bad'}\n" for i in range(40))
CLASSES = """
{schema_version: 1, name: classes, family: encoder, vocab_size: 60, context: 8, n_classes: 2, width: 8,
 embedding: {lookup: {rank: full}}, head: {classifier: {}},
 encoder: {slots: 1, layers: {plain: {mixer: {attention: {n_heads: 1, head_dim: 4}}, ffn: {ffn: {inner: 1x}}}}}}
"""
EVENT = '{"schema_version": 1, "kind": "node_left", "stage": "the search", "says": "host-b left the cluster"}\n'
LOGS = ("log.txt", ".lock")
"""What any command may append to, or take while it works."""


@dataclass(frozen=True)
class Command:
    """A command, and what it may write; None where it may write anything."""

    argv: tuple[str, ...]
    writes: tuple[str, ...] | None = ()


def _reads(text: str, *writes: str) -> Command:
    return Command(tuple(text.split()), writes)


def _works(text: str) -> Command:
    return Command(tuple(text.split()), None)


SHOW, COUNT = _reads("show space.yaml"), _reads("count space.yaml --json")
WATCH, REPORT = _reads("watch a --once"), _reads("report a --out report.html", "report.html", "report/")
PARETO, EVALUATE = _reads("pareto a --json", "runs/a/pareto.json"), _reads("evaluate a arch.json --limit 2")
LATENCY, DRY = _reads("latency one arch.json --breakdown"), _reads("run pipeline.yaml --dry-run")
TRAIN, SEARCH, EXTRACT = _works("train --resume a"), _works("search a"), _works("extract a --top 1")
RANK, PROFILE = _works("rank a -n 4 --steps 2"), _works("profile made-up.yaml --space space.yaml --budget 10m")
CHECK = _works("profile made-up.yaml --budget 10m --check -n 4")
NEW = _works("train --space space.yaml --task lm --data train=text.txt --data vocab_size=60 --run c --set steps=2 "
             "--set batch_size=2 --set device=cpu")
CLASSIFY = _works("train --space classes.yaml --task classification --data train=rows.csv --data text=text --data "
                  "label=label --data vocab_size=60 --run c --set steps=2 --set batch_size=2 --set device=cpu")
GENERATE, OF_SUBNET = _reads("generate SUBNET the --tokens 3"), _reads("evaluate SUBNET --limit 2")
INT8, COMPRESS = _reads("generate SUBNET-int8 the --tokens 3"), _works("compress SUBNET --int4")
RETRAIN, MEASURE = _works("retrain SUBNET --set steps=2 --out again"), _works("measure SUBNET --device made-up")
IMPORT = _reads("import pretrained --out again", "again")
FROM = _works("profile made-up.yaml --space space.yaml --from measured.csv --out fitted")

READERS: tuple[tuple[str, str, tuple[Command, ...]], ...] = (
    ("space.yaml", "yaml", (SHOW, COUNT, DRY, NEW)),
    ("arch.json", "json", (_reads("show arch.json"), _reads("count arch.json"), LATENCY, EVALUATE)),
    ("pipeline.yaml", "yaml", (DRY,)),
    ("runs/b/pipeline.json", "json", (DRY,)),
    ("made-up.yaml", "yaml", (PROFILE, DRY)),
    ("text.txt", "text", (NEW, DRY)),
    ("rows.csv", "csv", (CLASSIFY,)),
    ("pretrained/config.json", "json", (IMPORT,)),
    ("pretrained/model.safetensors", "safetensors", (IMPORT,)),
    ("pretrained/tokenizer*.json", "json", (IMPORT,)),
    ("pretrained/generation_config.json", "json", (IMPORT,)),
    ("measured.csv", "csv", (FROM,)),
    ("runs/profiles/one/profile.yaml", "yaml", (LATENCY, REPORT, PARETO)),
    ("runs/profiles/one/table.csv", "csv", (LATENCY, REPORT, PARETO)),
    ("runs/profiles/one/check-prefill.json", "json", (REPORT,)),
    ("runs/profiles/one/check-prefill.csv", "csv", (REPORT,)),
    ("runs/profiles/made-up/profile.yaml", "yaml", (PROFILE, CHECK, MEASURE)),
    ("runs/profiles/made-up/table.csv", "csv", (PROFILE, CHECK)),
    ("runs/profiles/made-up/models.csv", "csv", (PROFILE, CHECK, MEASURE)),
    ("runs/profiles/made-up/work/prefill-*.jsonl", "jsonl", (PROFILE,)),
    ("runs/a/config.yaml", "yaml", (WATCH, TRAIN, REPORT, EVALUATE, SEARCH)),
    ("runs/a/space.yaml", "yaml", (WATCH, REPORT, EVALUATE)),
    ("runs/a/manifest.json", "json", (WATCH, TRAIN, REPORT, EVALUATE)),
    ("runs/a/metrics.csv", "csv", (WATCH, TRAIN, REPORT)),
    ("runs/a/data/data.json", "json", (EVALUATE, REPORT, SEARCH)),
    ("runs/a/data/tokenizer.json", "json", (EVALUATE,)),
    ("runs/a/data/data.safetensors", "safetensors", (EVALUATE,)),
    ("runs/a/checkpoints/*/state.json", "json", (TRAIN,)),
    ("runs/a/checkpoints/*/state.safetensors", "safetensors", (TRAIN,)),
    ("runs/a/supernet.safetensors", "safetensors", (EVALUATE, SEARCH, EXTRACT)),
    ("runs/a/search.yaml", "yaml", (WATCH, REPORT, PARETO, SEARCH)),
    ("runs/a/study.journal", "jsonl", (REPORT, PARETO, SEARCH, EXTRACT)),
    ("runs/a/trials.csv", "csv", (WATCH,)),
    ("runs/a/pareto.json", "json", (DRY,)),
    ("runs/a/starts.json", "json", (SEARCH,)),
    ("runs/a/evaluations/*.jsonl", "jsonl", (SEARCH,)),
    ("runs/a/events.jsonl", "jsonl", (REPORT,)),
    ("runs/a/rank/ranking.csv", "csv", (REPORT,)),
    ("runs/a/rank/ranking.json", "json", (REPORT,)),
    ("runs/a/rank/*/result.json", "json", (RANK,)),
    ("runs/a/retraining/*/settings.json", "json", (REPORT, RETRAIN)),
    ("runs/a/retraining/*/metrics.csv", "csv", (REPORT,)),
    ("SUBNET/architecture.json", "json", (GENERATE, OF_SUBNET, REPORT)),
    ("SUBNET/metrics.json", "json", (GENERATE, OF_SUBNET, REPORT, RETRAIN, COMPRESS, MEASURE)),
    ("SUBNET/tokenizer.json", "json", (GENERATE, OF_SUBNET)),
    ("SUBNET/model.safetensors", "safetensors", (GENERATE, OF_SUBNET, COMPRESS, RETRAIN, MEASURE)),
    ("SUBNET-int8/quantisation.json", "json", (INT8,)),
    ("SUBNET-int8/model.safetensors", "safetensors", (INT8,)),
)
"""Files, what they hold, and the commands that read them."""


@contextmanager
def made_up_machine() -> Iterator[None]:
    """The runtime of `made-up.yaml` takes times that follow from what a model does, so that profiling takes none."""
    calls = [0]

    def load(module: Any, inputs: Any, options: Any) -> Any:
        seconds = made_up_seconds(module, inputs)

        def run() -> float:
            calls[0] += 1
            return seconds * (1 + 1e-4 * (calls[0] % 7))
        return run

    with (mock.patch.object(torch_eager, "load", load),
          mock.patch("nas.stages.profile.profiling.measurable", lambda _: False)):
        yield


def build(folder: Path) -> str:
    """Fill the working directory, which is `folder`; gives the path of a subnet."""
    write_inputs(folder)
    (folder / "classes.yaml").write_text(CLASSES)
    (folder / "rows.csv").write_text(ROWS)
    (folder / "pipeline.yaml").write_text(PIPELINE)
    (folder / "made-up.yaml").write_text(DEVICE)
    _done(options("a"))
    fill("a", trials=12)
    subnet = next(path for path in sorted(Path("runs/a/subnets").iterdir()) if path.name.isalnum())
    shutil.copy(subnet / "architecture.json", "arch.json")
    _done(["compress", str(subnet), "--int8"])
    _done(RANK.argv)
    _done(PROFILE.argv)
    _measurements(folder / "runs/profiles/made-up/models.csv")
    _done(shlex.split("train --space space.yaml --task lm --data train=text.txt --data vocab_size=60 --run b --set "
                      "steps=3 --set batch_size=2 --set device=cpu --set lr=0.01"))
    stages = {name: {"inputs": "0" * 16, "state": "done", "seconds": 1.5, "output": []}
              for name in ("prepare", "profile", "train")}
    write_json(Path("runs/b/pipeline.json"), {"schema_version": 1, "stages": stages})
    Path("runs/a/events.jsonl").write_text(EVENT, "utf-8")
    _pretrained(folder / "pretrained", subnet / "tokenizer.json")
    return str(subnet)


def _pretrained(folder: Path, tokenizer: Path) -> None:
    """A classifier as it is downloaded from the Hugging Face Hub."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(vocab_size=60, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
                        max_position_embeddings=16, num_labels=3)
    BertForSequenceClassification(config).save_pretrained(folder)
    shutil.copy(tokenizer, folder)
    write_json(folder / "tokenizer_config.json", {"pad_token": "<pad>", "eos_token": {"content": "<eos>"}})
    write_json(folder / "generation_config.json", {"pad_token_id": 0, "eos_token_id": [1, 2]})


def _measurements(models: Path) -> None:
    """Whole models and their times, as a user would bring them."""
    lines = [line.split(",", 3) for line in models.read_text().splitlines()[1:]]
    Path("measured.csv").write_text("architecture,ms\n" + "".join(f"{arch},{ms}\n" for _, _, ms, arch in lines))


def _done(argv: Any) -> None:
    code = cli.main(list(argv))
    if code:
        raise SystemExit(f"nas {' '.join(argv)} ended with {code}")
