"""Spaces around models: the largest architecture is the model, and what must stay stays."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest
import torch

from nas.core.subnet import HistoryStep, SubnetFacts, write_subnet
from nas.importers import Checkpoint, ImportWishes, convert, stock_models
from nas.stages.space_from.request import SpaceFromRequest
from nas.stages.space_from.run import run
from nas.stages.space_from.view import space_lines
from search_spaces import InputError, load_space
from supernet import Transformer
from tests.contracts.test_importers import CASES, DECODER, SMALL, pretrained, tokenizer

pytest.importorskip("transformers")
BIG = {"hidden_size": 64, "intermediate_size": 96}


def subnet(folder: Path, arch, model: Transformer | None = None) -> str:
    """A folder with a model, by default a random one."""
    facts = SubnetFacts(key=arch.key, task="", run="", made=(HistoryStep(stage="import", settings={}),))
    write_subnet(folder, model or Transformer(arch, seed=0), tokenizer(), facts)
    return str(folder)


def architecture(tmp_path: Path, cls: str, config: dict):
    return convert(Checkpoint.open(pretrained(tmp_path / "theirs", cls, config)), ImportWishes()).model.arch


@pytest.mark.parametrize("family", CASES)
def test_the_largest_of_the_space_is_the_model(family: str, tmp_path: Path) -> None:
    cls, config = CASES[family][1]
    arch = architecture(tmp_path, cls, config)
    result = run(SpaceFromRequest(subnet(tmp_path / "ours", arch), tmp_path / "own.yaml"))
    space = load_space(str(tmp_path / "own.yaml"))
    assert space.largest() == arch and space.smallest() in space and result.space.size() > 1
    fixed = run(SpaceFromRequest(str(tmp_path / "ours"), tmp_path / "fixed.yaml", keep=("all",)))
    assert fixed.space.size() == 1 and fixed.space.largest() == arch


def test_choices_suit_the_hardware_and_keep_meaning(tmp_path: Path) -> None:
    grouped = architecture(tmp_path, "LlamaForCausalLM", {**DECODER, **BIG, "rms_norm_eps": 1e-5})
    space = run(SpaceFromRequest(subnet(tmp_path / "ours", grouped), tmp_path / "own.yaml")).space
    assert space.settings["width"].choices() == (32, 64)
    mixer = space.stacks["decoder"].layer_types["block"]["mixer"].dims["grouped_attention"]
    assert mixer["n_kv_heads"].choices(0) == mixer["queries"].choices(0) == (1, 2)
    assert mixer["head_dim"].choices(0) == (16,)
    assert space.stacks["decoder"].layer_types["block"]["ffn"].dims["ffn"]["inner"].choices(0) == (32, 64, 96)
    assert space.norm_eps == 1e-5 and "rotary_base" not in (tmp_path / "own.yaml").read_text()


def test_layers_can_be_kept_alike(tmp_path: Path) -> None:
    """So that every architecture is one that the stock class can express."""
    arch = architecture(tmp_path, "BertForSequenceClassification", {**CASES["bert"][2][1], **BIG})
    request = SpaceFromRequest(subnet(tmp_path / "ours", arch), tmp_path / "own.yaml", ("width", "heads", "rank"),
                               uniform=True)
    space = run(request).space
    assert space.largest() == arch and space.size() > 5
    for seed in range(10):
        drawn = space.sample(Random(seed))  # noqa: S311
        assert len({layer.ffn for layer in drawn.encoder}) == 1
        assert next(stock_models(drawn))[2].cls == "BertForSequenceClassification"


def test_similar_layers_may_share_weights(tmp_path: Path) -> None:
    """Layers 0 and 1, and 2 and 3, have nearly the same feed-forward; attention is another in every layer."""
    arch = architecture(tmp_path, "BertModel", {**SMALL, "num_hidden_layers": 4})
    model = Transformer(arch, seed=0)
    weights = dict(model.named_parameters())
    noise = torch.Generator().manual_seed(0)
    for name, tensor in weights.items():
        if re.match(r"encoder\.[13]\.ffn", name) and tensor.ndim > 1:
            like = weights[re.sub(r"\.(\d)\.", lambda found: f".{int(found[1]) - 1}.", name, count=1)].data
            tensor.data = like + 0.1 * like.std() * torch.randn(like.shape, generator=noise)
    name = subnet(tmp_path / "ours", arch, model)
    space = run(SpaceFromRequest(name, tmp_path / "own.yaml")).space
    assert space.stacks["encoder"].sharing.choices() == ("none", "ffn/2") and space.largest() == arch
    assert "sharing: [none, ffn/2]    # weights to share: their cosine is 0.99" in (tmp_path / "own.yaml").read_text()
    kept = run(SpaceFromRequest(name, tmp_path / "kept.yaml", keep=("sharing",)))
    assert kept.space.largest() == arch and "sharing" not in (tmp_path / "kept.yaml").read_text()


def test_layers_that_differ_share_nothing(tmp_path: Path) -> None:
    arch = architecture(tmp_path, "BertModel", SMALL)
    run(SpaceFromRequest(subnet(tmp_path / "ours", arch), tmp_path / "own.yaml"))
    text = (tmp_path / "own.yaml").read_text()
    assert "# sharing: no layers are similar enough to share weights (cosine at most" in text


def test_a_new_classifier_replaces_the_head(tmp_path: Path) -> None:
    arch = architecture(tmp_path, *CASES["bert"][0])
    space = run(SpaceFromRequest(subnet(tmp_path / "ours", arch), tmp_path / "own.yaml", classes=5)).space
    assert space.largest().head.kind == "classifier" and space.n_classes == 5
    assert space.largest().encoder == arch.encoder


@pytest.mark.parametrize(("facts", "classes", "options"), [
    ({"task": "lm", "run": "runs/a"}, None, ""), ({"task": "lm", "run": ""}, None, " --data train=FILE"),
    ({"task": "", "run": ""}, 5, " --task TASK --data train=FILE"),
])
def test_the_next_command_trains_the_space(facts: dict, classes: int | None, options: str, tmp_path: Path) -> None:
    arch = architecture(tmp_path, *CASES["llama" if facts["task"] else "bert"][0])
    known = SubnetFacts(key=arch.key, made=(HistoryStep(stage="import"),), **facts)
    write_subnet(tmp_path / "ours", Transformer(arch, seed=0), tokenizer(), known)
    result = run(SpaceFromRequest(str(tmp_path / "ours"), tmp_path / "own.yaml", classes=classes))
    assert space_lines(result).plain.endswith(
        f"train it: nas train --space {tmp_path}/own.yaml --init {tmp_path}/ours --run NAME{options}")


@pytest.mark.parametrize(("wrong", "says"), [
    ({"keep": ("hight",)}, "'hight' is not allowed; allowed: depth"), ({"least": 0.0}, "0 is not allowed"),
    ({"classes": 1}, "1 is not allowed; allowed: 2 or more")])
def test_wrong_requests_are_refused(wrong: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        SpaceFromRequest("x", **wrong)


def test_files_are_not_overwritten_and_language_models_have_no_classes(tmp_path: Path) -> None:
    arch = architecture(tmp_path, "LlamaForCausalLM", DECODER)
    name = subnet(tmp_path / "ours", arch)
    with pytest.raises(InputError, match="classes.*applies to encoders only"):
        run(SpaceFromRequest(name, classes=2))
    (tmp_path / "own.yaml").write_text("")
    with pytest.raises(InputError, match="exists; delete it"):
        run(SpaceFromRequest(name, tmp_path / "own.yaml"))
