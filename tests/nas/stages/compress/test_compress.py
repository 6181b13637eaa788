"""`nas compress`: a folder in, a smaller one out, with its quality and size beside the original's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from hardware_profiles import LatencyModel
from nas.core.costs import count
from nas.core.subnet import Subnet
from nas.stages.compress import run as stage
from search_spaces.errors import InputError
from supernet import Transformer
from supernet.compression.heads import attentions
from supernet.compression.pruning import sparsity, weights, zeros
from supernet.compression.quantised import Quantised, dequantised
from supernet.pretrained import QUANTISATION, WEIGHTS
from tests.nas.runs import full_disk, nas, refused

WAYS = {
    "int8": ["--int8"],
    "int8-static": ["--int8", "--static", "--set", "batches=2"],
    "int8-qat": ["--int8", "--qat", "--set", "steps=3"],
    "int8-static-qat": ["--int8", "--static", "--qat", "--set", "steps=2"],
    "int4": ["--int4", "--group", "8"],
    "pruned": ["--prune", "0.5", "--set", "steps=3"],
    "heads": ["--prune-heads", "0.25"],
}


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def there() -> list[str]:
    return sorted(path.name for path in Path("runs/a/subnets").iterdir() if path.name != ".lock")


def compressed(capsys: Any, name: str, *options: str) -> Subnet:
    code, out, err = nas(capsys, "compress", name, *options, "--json")
    assert code == 0, err
    return Subnet.open(json.loads(out)["folder"])


@pytest.mark.parametrize("suffix", WAYS)
def test_a_smaller_model_stands_beside_the_original(subnet: Subnet, capsys: Any, suffix: str) -> None:
    before = files(subnet.path)
    code, out, err = nas(capsys, "compress", "a/big", *WAYS[suffix], "--json")
    assert code == 0, err
    found, made = json.loads(out), Subnet.open(f"a/big-{suffix}")
    assert found["folder"] == str(made.path) == f"runs/a/subnets/big-{suffix}"
    assert found["bytes"] == sum((made.path / name).stat().st_size for name in (WEIGHTS, QUANTISATION)
                                 if (made.path / name).exists())
    assert found["metrics"] == made.facts.metrics and found["original"]["metrics"] == subnet.facts.metrics
    assert found["original"]["bytes"] == (subnet.path / WEIGHTS).stat().st_size
    assert made.facts.costs["weight_bytes"] < subnet.facts.costs["weight_bytes"]
    assert [each.stage for each in made.facts.made] == ["extract", "compress"]
    assert made.facts.made[-1].settings["technique"] == "-".join(suffix.split("-")[:1]).replace(
        "pruned", "prune").replace("heads", "prune-heads")
    assert files(subnet.path) == before, "the original is left alone"
    assert not Path("runs/a/compressing").exists() or not list(Path("runs/a/compressing").iterdir())
    assert there() == ["big", f"big-{suffix}"]
    (measured,) = json.loads(nas(capsys, "evaluate", str(made.path), "--json")[1])["architectures"].values()
    assert measured == pytest.approx(made.facts.metrics), "what is written is what was measured"
    assert "compress" in (made.path / "README.md").read_text("utf-8")


def test_the_table_says_what_was_won_and_lost(subnet: Subnet, capsys: Any) -> None:
    code, out, err = nas(capsys, "compress", "a/big", "--int8", "--out", "small")
    assert code == 0, err
    lines = [line.split() for line in out.splitlines()]
    assert lines[0][:3] == ["subnet", "loss", "perplexity"] and lines[0][-3:] == ["of", "the", "original"]
    assert [line[0] for line in lines[1:3]] == ["big", "small"] and lines[1][-1] == "100.0%"
    assert f"{(subnet.path / WEIGHTS).stat().st_size:,}" in lines[1] and "nas export small" in out
    assert isinstance(Transformer.from_pretrained("small"), Quantised)


def test_fixed_scales_are_kept_and_trained_with(subnet: Subnet, capsys: Any) -> None:
    fixed = compressed(capsys, "a/big", "--int8", "--static").model()
    aware = compressed(capsys, "a/big", "--int8", "--static", "--qat", "--set", "steps=2").model()
    free = compressed(capsys, "a/big", "--int8").model()
    assert isinstance(fixed, Quantised) and isinstance(aware, Quantised) and isinstance(free, Quantised)
    for name in fixed.inputs:
        assert torch.equal(fixed.input_scales(name), aware.input_scales(name))
    assert any(bool(fixed.input_scales(name).any()) for name in fixed.inputs)
    assert fixed.how.activations == aware.how.activations == "static" and free.how.activations == "dynamic"
    assert not all(torch.equal(fixed.get_buffer(name), aware.get_buffer(name)) for name in fixed.inputs)


@pytest.mark.parametrize("options", [("--set", "steps=3", "--set", "ema=0.5"), ("--set", "steps=0"),
                                     ("--rewind", "--set", "steps=4", "--set", "rounds=2", "--set", "rewind_step=1")])
def test_pruned_weights_are_exactly_zero(subnet: Subnet, capsys: Any, options: tuple[str, ...]) -> None:
    made = compressed(capsys, "a/big", "--prune", "0.6", *options)
    model, total = made.model(), sum(each.numel() for each in weights(subnet.model()).values())
    assert sparsity(model) == pytest.approx(0.6, abs=1 / total)
    assert made.facts.made[-1].settings["sparsity"] == pytest.approx(0.6, abs=1 / total)
    moved = any(not torch.equal(weights(model)[name][mask], weights(subnet.model())[name][mask])
                for name, mask in zeros(model).items())
    assert moved == ("steps=0" not in options)
    assert made.facts.made[-1].settings.get("rounds") == (2 if "--rewind" in options else None)
    assert made.facts.key == subnet.facts.key


def test_a_pruned_model_can_be_quantised_and_keeps_its_zeros(subnet: Subnet, capsys: Any) -> None:
    masks = zeros(compressed(capsys, "a/big", "--prune", "0.7", "--set", "steps=0").model())
    assert masks
    for options in (["--int8"], ["--int4"], ["--int8", "--qat", "--set", "steps=2"]):
        made = compressed(capsys, "a/big-pruned", *options)
        plain = dequantised(made.model())
        assert all(not weights(plain)[name][~mask].any() for name, mask in masks.items())
    assert there() == ["big", "big-pruned", "big-pruned-int4", "big-pruned-int8", "big-pruned-int8-qat"]
    more = compressed(capsys, "a/big-pruned", "--prune", "0.8", "--set", "steps=1", "--out", "more").model()
    assert sparsity(more) == pytest.approx(0.8, abs=0.01)
    assert all(not weights(more)[name][~mask].any() for name, mask in masks.items())
    fewer = compressed(capsys, "a/big-pruned", "--prune-heads", "0.25", "--set", "steps=1").model()
    assert sparsity(fewer) == pytest.approx(0.7, abs=0.05)
    assert "0.7 of its weights are already 0" in refused(capsys, "compress", "a/big-pruned", "--prune", "0.5")


def test_fewer_heads_are_another_architecture(subnet: Subnet, capsys: Any) -> None:
    made = compressed(capsys, "a/big", "--prune-heads", "0.5", "--set", "steps=2", "--set", "batches=1")
    before, after = subnet.model(), made.model()
    heads = [sum(each.n_heads for _, each in attentions(model).values()) for model in (before, after)]
    assert heads[1] == heads[0] / 2
    assert made.facts.made[-1].settings == {"technique": "prune-heads", "heads": heads[1], "heads_before": heads[0],
                                            "steps": 2, "lr": pytest.approx(1e-2 / 40)}
    assert made.arch.key == made.facts.key != subnet.facts.key
    cost, costs = count(made.arch, made.arch.context), made.facts.costs
    assert costs["params"] == cost.params == sum(each.numel() for each in after.parameters())
    assert (costs["macs"], costs["weight_bytes"]) == (cost.macs, cost.weight_bytes)
    assert costs["latency:one"] == pytest.approx(LatencyModel.load("one").predict_many([made.arch], "prefill")[0])
    assert "latency:gone" not in costs, "no profile, no price"


@pytest.mark.parametrize(("options", "says"), [
    ([], "takes exactly one of --cache-embedding or --int4"),
    (["--int8", "--int4"], "given: --int4 and --int8"),
    (["--int4", "--static"], "--static: belongs to --int8, not to --int4"),
    (["--int8", "--rewind"], "--rewind: belongs to --prune, not to --int8"),
    (["--prune", "1.5"], "--prune: 1.5 is not allowed"),
    (["--prune", "nan"], "--prune: nan is not allowed"),
    (["--prune-heads", "0"], "--prune-heads: 0.0 is not allowed"),
    (["--int4", "--group", "1"], "--group: 1 is not allowed"),
    (["--prune-heads", "0.01"], "0.01 of 4 heads is less than one"),
    (["--int8", "--set", "steps=3"], "steps: has no effect without training"),
    (["--int8", "--set", "batches=3"], "batches: unknown setting"),
    (["--int8", "--static", "--set", "batches=0"], "batches: '0' is not allowed"),
    (["--int8", "--qat", "--set", "steps=0"], "steps: '0' is not allowed"),
    (["--prune", "0.5", "--set", "steps=0", "--set", "lr=1"], "lr: has no effect without training; set steps too"),
    (["--prune", "0.5", "--set", "rounds=2"], "rounds: unknown setting; allowed: seed"),
    (["--prune", "0.5", "--rewind", "--set", "strategy=single"], "strategy: applies to supernets"),
    (["--prune", "0.5", "--rewind", "--set", "rewind_step=9", "--set", "steps=3"], "rewind_step 9 is not before"),
    (["--prune", "0.5", "--set", "colour=red"], "colour: unknown setting; allowed: seed"),
    (["--int8", "--out", "runs/a/subnets/big"], "exists; delete it, or name another folder"),
    (["--int8", "--out", "text.txt/small"], "text.txt is not writable"),
])
def test_what_cannot_be_is_one_sentence(subnet: Subnet, capsys: Any, options: list[str], says: str) -> None:
    err = refused(capsys, "compress", "a/big", *options)
    assert says in err and len(err.splitlines()) == 1
    assert there() == ["big"]


def test_what_is_in_few_bits_stays_as_it_is(subnet: Subnet, capsys: Any) -> None:
    assert compressed(capsys, "a/big", "--int8").path.name == "big-int8"
    for options in (["--int8"], ["--int4"], ["--prune", "0.5"], ["--prune-heads", "0.5"]):
        err = refused(capsys, "compress", "a/big-int8", *options)
        assert "runs/a/subnets/big-int8: it is already int8" in err
    assert "exists" in refused(capsys, "compress", "a/big", "--int8")
    (Path("runs/a/subnets/big-int8") / QUANTISATION).write_text("{}", "utf-8")
    assert "does not fit architecture.json" in refused(capsys, "compress", "a/big-int8", "--int8", "--out", "x")


def test_layers_without_a_head_to_spare_say_so(subnet: Subnet, capsys: Any) -> None:
    assert compressed(capsys, "a/big", "--prune-heads", "0.9").path.name == "big-heads"
    err = refused(capsys, "compress", "a/big-heads", "--prune-heads", "0.5")
    assert "no layer has a head to prune" in err


def test_nothing_half_written_stays_behind(subnet: Subnet, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with full_disk():
        assert "big-int8: cannot be written (" in refused(capsys, "compress", "a/big", "--int8")
    assert there() == ["big"]
    Path("runs/a/subnets/.big-int8.12345678").mkdir()  # by a process that was killed

    def broken(*_: Any, **__: Any) -> None:
        raise InputError("evaluation", "out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(stage, "score", broken)
        assert "out of memory" in refused(capsys, "compress", "a/big", "--int8")
    assert compressed(capsys, "a/big", "--int8").path.name == "big-int8"
    assert there() == ["big", "big-int8"]
    (subnet.path / WEIGHTS).write_bytes(b"")
    assert "cannot be read" in refused(capsys, "compress", "a/big", "--int4")
