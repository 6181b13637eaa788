"""Pruning to a limit: the result is within it, keeps the most important, and is an ordinary subnet."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from nas.api import extract, pareto
from nas.core.costs import count_params
from nas.core.measures import Measure
from nas.core.pricing import Prices
from nas.core.progress import StageProgress
from nas.core.subnet import HistoryStep, Subnet, SubnetFacts, write_subnet
from nas.stages.prune_to.request import METHODS, PruneToRequest
from nas.stages.prune_to.run import run
from nas.testing import small_subnets
from search_spaces import Architecture, InputError
from supernet import Transformer
from tests.nas.runs import nas, refused


def imported(folder: Path, model: Transformer) -> Subnet:
    """A subnet without a run."""
    made = (HistoryStep(stage="import", settings={"source": "x"}),)
    facts = SubnetFacts(key=model.arch.key, task="", run="", made=made)
    return write_subnet(folder, model, small_subnets.tokenizer(model.arch.vocab_size), facts)


def prune(subnet: Subnet, *limits: str, **how: object) -> Subnet:
    return run(PruneToRequest(str(subnet.path), limits, **how), StageProgress()).after


def outputs(model: Transformer) -> torch.Tensor:
    arch, noise = model.arch, torch.Generator().manual_seed(0)
    ids = torch.randint(0, arch.vocab_size, (2, arch.context), generator=noise)
    with torch.no_grad():
        return model.eval()(*((ids, ids) if arch.family == "seq2seq" else (ids,)))


def plain_lm() -> Architecture:
    """A language model of two layers of attention with heads and channels to spare."""
    space = small_subnets.space("lm")
    found = (space.sample(random.Random(seed)) for seed in range(500))
    return next(arch for arch in found if len(arch.decoder) == 2 and arch.positions == "learned" and
                arch.norm == "layernorm" and len({layer.mixer_slot for layer in arch.decoder}) == 2 and
                all(layer.mixer.kind == "attention" and layer.mixer["n_heads"] == layer.mixer["n_kv_heads"] == 2 and
                    layer.ffn["inner"] == 24 for layer in arch.decoder))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("family", ["lm", "encoder", "seq2seq"])
def test_every_method_stays_within_the_limit_for_every_family(family: str, method: str, tmp_path: Path) -> None:
    space, pruned = small_subnets.space(family), 0
    sampled = (space.sample(random.Random(seed)) for seed in range(100))
    unshared = (arch for arch in sampled if all(len({layer.mixer_slot for layer in layers}) == len(layers)
                                                for layers in arch.stacks.values()))
    for seed, arch in enumerate(islice(unshared, 2)):
        subnet = imported(tmp_path / f"{seed}", Transformer(arch, seed=seed))
        limit = int(0.9 * count_params(arch))
        try:
            after = prune(subnet, f"params={limit}", method=method)
        except InputError as error:
            assert "the nearest is params=" in str(error) or "cannot be made smaller" in str(error)
            continue
        pruned += 1
        assert count_params(after.arch) <= limit and after.facts.costs["params"] == count_params(after.arch)
        assert outputs(after.model()).isfinite().all()
        assert after.facts.made[-1].stage == "prune" and after.facts.made[-1].settings["method"] == method
    assert pruned or (family, method) == ("seq2seq", "layers"), "its stacks have one layer each"


@pytest.mark.parametrize("method", ["uniform", "importance"])
def test_heads_and_channels_that_do_nothing_go_first(method: str, tmp_path: Path) -> None:
    arch = plain_lm()
    model = Transformer(arch, seed=0)
    with torch.no_grad():
        for name, tensor in model.named_parameters():  # every second channel of feed-forwards, the first of two heads
            if ".ffn.block." in name and tensor.shape[0] == 24:
                tensor[::2] = 0
            elif name.endswith("ffn.block.down.weight"):
                tensor[:, ::2] = 0
            elif ".attend." in name and "attend.o" not in name:
                tensor[: len(tensor) // 2] = 0
            elif name.endswith("attend.o.weight"):
                tensor[:, : tensor.shape[1] // 2] = 0
    before = outputs(model)
    subnet = imported(tmp_path / "model", model)
    request = PruneToRequest(str(subnet.path), ("params=1",), method)
    with pytest.raises(InputError, match="the nearest is"):
        run(request, StageProgress())
    if method == "importance":  # uniform shrinks the width, too
        gone = 2 * 12 * (2 * arch.width + 1)
        after = prune(subnet, f"params={count_params(arch) - gone}", method=method)
        kept = [(layer.mixer["n_heads"], layer.ffn["inner"]) for layer in after.arch.decoder]
        assert all(inner >= 12 and heads >= 1 for heads, inner in kept)
        assert torch.allclose(outputs(after.model()), before, atol=1e-5)
    else:
        after = prune(subnet, f"params={int(0.6 * count_params(arch))}", method=method)
        assert after.arch.width < arch.width and len({layer.ffn["inner"] for layer in after.arch.decoder}) == 1


def test_chosen_layers_keep_their_weights(tmp_path: Path) -> None:
    model = Transformer(plain_lm(), seed=0)
    subnet = imported(tmp_path / "model", model)
    after = prune(subnet, layers=("1",))
    assert after.path.name == "model-layers" and after.facts.made[-1].settings["decoder layers"] == "1 of 2"
    theirs = after.model().state_dict()
    assert theirs and all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in theirs.items())


def test_the_first_version_within_the_limit_is_taken_where_latencies_have_gaps(tmp_path: Path,
                                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    layers = plain_lm().decoder
    arch = replace(plain_lm(), decoder=tuple(replace(layers[0], mixer_slot=i, ffn_slot=i) for i in range(8)))
    latency_ms = {8: 10.0, 7: 9.0, 6: 5.0, 4: 8.0, 3: 7.0, 2: 4.0, 1: 3.0}  # 5 layers were not profiled

    def values(prices: Prices, measures: Sequence[Measure], archs: Sequence[Architecture]) -> np.ndarray:
        depth = len(archs[0].decoder)
        if depth not in latency_ms:
            raise InputError("cpu", "no latency")
        return np.array([[latency_ms[depth]] * len(measures)])

    monkeypatch.setattr(Prices, "values", values)
    monkeypatch.setattr("nas.stages.prune_to.run.load_devices", lambda names: {})
    monkeypatch.setattr("nas.core.subnet.device_costs", lambda names, arch: ({}, {}))
    subnet = imported(tmp_path / "model", Transformer(arch, seed=0))
    result = run(PruneToRequest(str(subnet.path), ("latency:cpu=6ms",), "layers"), StageProgress())
    assert len(result.after.arch.decoder) == 6 and [value for _, value in result.limits] == [5.0]
    with pytest.raises(InputError, match="the nearest is latency:cpu=3"):
        prune(subnet, "latency:cpu=2ms", method="layers", out=tmp_path / "other")


@pytest.mark.parametrize(("wrong", "says"), [
    ({"max": ()}, "max: is missing"), ({"method": "magic"}, "'magic' is not allowed; allowed: uniform, layers"),
    ({"score": "size"}, "'size' is not allowed; allowed: activation"), ({"layers": ("a",)}, "numbers of layers"),
    ({"layers": ("0",), "method": "uniform"}, "needs the method layers"), ({"max": ("loss=3",)}, "'loss' is unknown"),
    ({"max": ("params",)}, "must be MEASURE=VALUE")])
def test_wrong_requests_are_refused(wrong: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        PruneToRequest("x", **{"max": ("params=1",), **wrong})


def test_models_that_cannot_be_pruned_so_are_refused(tmp_path: Path) -> None:
    subnet = imported(tmp_path / "model", Transformer(plain_lm(), seed=0))
    with pytest.raises(InputError, match="no layer 7 in its decoder; allowed: 0 to 1"):
        prune(subnet, layers=("0,7",))
    with pytest.raises(InputError, match="the model has no encoder; allowed: decoder"):
        prune(subnet, layers=("encoder=0",))
    with pytest.raises(InputError, match="already within the limits"):
        prune(subnet, "params=1G")
    with pytest.raises(InputError, match="is not met with these layers: params="):
        prune(subnet, "params=10", layers=("0",))
    with pytest.raises(InputError, match="is unknown: not a measured profile"):
        prune(subnet, "latency:nowhere=1ms")
    two = imported(tmp_path / "two", Transformer(small_subnets.space("seq2seq").smallest(), seed=0))
    with pytest.raises(InputError, match="is ambiguous: the model has encoder and decoder; write encoder=0,2"):
        prune(two, layers=("0",))


@pytest.mark.parametrize("method", METHODS)
def test_a_subnet_of_a_run_is_pruned_for_its_device_and_retrained(method: str, subnets: dict[str, Path],
                                                                  capsys: pytest.CaptureFixture) -> None:
    key = max(pareto("lm"), key=lambda entry: entry.costs["params"]).arch.key
    (largest,) = extract("lm", key=key)
    whole = largest.facts.costs["latency:on-lm"]
    code, out, err = nas(capsys, "prune-to", str(largest.path), "--max", f"latency:on-lm={0.9 * whole}ms", "--method",
                         method, "--json")
    if code == 2:
        assert "cannot be met by the method" in err
        return
    found = json.loads(out)
    assert found["limits"][0]["value"] <= 0.9 * whole and found["metrics"]["loss"] > 0 and found["kept"]
    code, out, err = nas(capsys, "retrain", found["folder"], "--teacher", str(largest.path), "--set", "steps=2")
    assert (code, err) == (0, "") and Subnet.open(f"{found['folder']}-retrained").arch.key == found["key"]


def test_quantised_subnets_and_taken_folders_are_refused(subnets: dict[str, Path],
                                                         capsys: pytest.CaptureFixture) -> None:
    folder = str(subnets["lm"])
    assert nas(capsys, "compress", folder, "--int8")[0] == 0
    assert "is already int8" in refused(capsys, "prune-to", f"{folder}-int8", "--max", "params=1k")
    Path(f"{folder}-layers").mkdir()
    assert "exists; delete it" in refused(capsys, "prune-to", folder, "--layers", "0")


@pytest.mark.parametrize("family", ["llama", "bert", "t5"])
def test_imported_models_are_pruned(family: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.nas.stages.space_from.test_space_from import CASES, architecture

    arch = architecture(tmp_path, *CASES[family][0])
    subnet = imported(tmp_path / "ours", Transformer(arch, seed=0))
    for method in ("uniform", "importance"):
        after = prune(subnet, f"params={int(0.97 * count_params(arch))}", method=method)
        assert count_params(after.arch) <= 0.97 * count_params(arch) and outputs(after.model()).isfinite().all()
        if family == "llama" and method == "uniform":
            mixer = after.arch.decoder[0].mixer
            assert mixer.kind == arch.decoder[0].mixer.kind and mixer["head_dim"] == arch.decoder[0].mixer["head_dim"]
