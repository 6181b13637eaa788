"""Does the demo find better models than a person would? Its picks against eight uniform plain models, over seeds.

    python benchmarks/demo_baselines.py [--seeds 5] [--results benchmarks/results]

Runs the demo once per seed (an interrupted benchmark resumes). The plain models are attention layers of one shape, in
the two widths of the space and one to four layers, trained from scratch on as many tokens as supernet and retraining
read together. All are timed together. A pick wins if every plain model that is not slower has a higher loss. Prints one
JSON line per seed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import yaml
from _results import ROOT, add_option, append
from retraining import extracted

from nas import api
from nas.cli import main as nas
from nas.core.evaluated import read_evaluated
from nas.core.evaluation import prepare
from nas.core.names import subnets_in
from nas.core.picking import knee
from nas.core.run_dir import RunDir
from nas.core.subnet import Subnet
from nas.pipeline.reading import read_pipeline
from search_spaces import Architecture, SearchSpace

DEMO = ROOT / "examples" / "demo.yaml"
DEVICE = "cpu"
SHAPE = {"attention.n_heads": 4, "attention.head_dim": 16, "attention.n_kv_heads": "n_heads", "ffn.inner": "2x",
         "ffn.activation": "gelu", "ffn.gated": False, "layer": "transformer", "mixer.kind": "attention"}
"""The layers of the plain models: what a Transformer of this width usually has."""


def plain_models(space: SearchSpace) -> dict[str, Architecture]:
    """Width x depth, by name."""
    base = {name: next((value for end, value in SHAPE.items() if name.endswith(end)), default)
            for name, default in space.encode(space.largest()).items()}
    base |= {"head.kind": "tied", "embedding.lookup.rank": "full", "decoder.sharing": "none"}
    return {f"{width}x{depth}": space.decode({**base, "width": width, "decoder.depth": depth})
            for width in space.genes["width"] for depth in space.genes["decoder.depth"]}


def run_demo(seed: int) -> tuple[RunDir, int]:
    """The finished demo of a seed, and the steps of a plain model on as many tokens."""
    config = yaml.safe_load(DEMO.read_text("utf-8"))
    config |= {"run": f"demo-seed{seed}", "plain": False, "training": {**config["training"], "seed": seed}}
    path = Path("runs") / f"demo-seed{seed}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(config, sort_keys=False), "utf-8")
    if nas(["run", str(path)]):
        raise SystemExit(f"the demo with seed {seed} failed")
    return RunDir.open(config["run"]), read_pipeline(path).all_steps()


def train_plain(run: RunDir, steps: int) -> dict[str, Subnet]:
    prepared, trained = prepare(run), {}
    for name, arch in plain_models(prepared.space).items():
        out = run.path / "benchmark" / f"plain-{name}-{steps}"
        subnet = extracted(run, name, arch, prepared)
        trained[name] = Subnet.open(str(out)) if (out / "model.safetensors").is_file() else api.retrain(
            subnet, {"steps": steps}, init="scratch", teacher="none", out=out)
    return trained


def front_losses(run: RunDir) -> dict[str, float]:
    """How far the inherited loss falls along the front: over its whole length, and beyond its knee."""
    entries = api.pareto(run)
    latency = f"latency:{DEVICE}"
    entries.sort(key=lambda entry: entry.costs[latency])
    turn = knee(entries, read_evaluated(run).objectives)
    return {"fast_ms": entries[0].costs[latency], "slow_ms": entries[-1].costs[latency],
            "front_fall": entries[0].metrics["loss"] - entries[-1].metrics["loss"],
            "fall_beyond_knee": turn.metrics["loss"] - entries[-1].metrics["loss"]}


def compare(run: RunDir, plain: dict[str, Subnet]) -> list[dict[str, Any]]:
    """A row per pick and plain model: loss and measured latency."""
    picks = {path.name: Subnet.open(str(path)) for path in subnets_in(run.path) if "-retrained" in path.name}
    everyone = {**picks, **plain}
    api.measure([subnet.path for subnet in everyone.values()], [DEVICE])
    rows = []
    for name, subnet in everyone.items():
        facts = Subnet.open(str(subnet.path)).facts
        rows.append({"model": name, "kind": "pick" if name in picks else "plain", "loss": facts.metrics["loss"],
                     "measured_ms": facts.measured[f"latency:{DEVICE}"].measured_ms})
    return rows


def wins(rows: list[dict[str, Any]]) -> dict[str, bool]:
    """For each pick, whether it is better than every plain model that is not slower."""
    plain = [row for row in rows if row["kind"] == "plain"]
    return {row["model"]: all(row["loss"] < other["loss"] for other in plain
                              if other["measured_ms"] <= row["measured_ms"])
            for row in rows if row["kind"] == "pick"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    add_option(parser)
    options = parser.parse_args()
    for seed in range(options.seeds):
        run, steps = run_demo(seed)
        rows = compare(run, train_plain(run, steps))
        falls = {name: round(value, 4) for name, value in front_losses(run).items()}
        print(json.dumps({"benchmark": "demo_baselines", "seed": seed, "steps_of_plain": steps, **falls,
                          "wins": wins(rows), "models": rows}), flush=True)
        append(options.results, "demo_baselines", [{"seed": seed, **row, "loss": round(row["loss"], 4),
                                                    "measured_ms": round(row["measured_ms"], 4),
                                                    "wins": wins(rows).get(row["model"], ""), **falls}
                                                   for row in rows])


if __name__ == "__main__":
    main()
