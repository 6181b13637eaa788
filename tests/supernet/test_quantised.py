"""Models in few bits: through their folder and back, as good as before, and as small as the arithmetic says."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from search_spaces import InputError
from supernet import Transformer
from supernet.batch import Batch
from supernet.compression.calibration import calibrate
from supernet.compression.matrices import Reweighted, Weight, matrices
from supernet.compression.quantised import DYNAMIC, STATIC, Quantisation, Quantised, dequantised, quantise
from supernet.compression.rounding import Int8Matrix, to_int8
from supernet.inference import run_model
from supernet.pretrained import QUANTISATION, WEIGHTS, load_model, save_model, stored
from supernet.train.step import Trainer
from tests.supernet.toys import LM, SEQ2SEQ, Rows, plain_trainer, recipe

INT4 = Quantisation(scheme="int4", group=32)
SCHEMES = {"int8": DYNAMIC, "int8-static": STATIC, "int4": INT4, "int4-odd": Quantisation(scheme="int4", group=5)}
WORSE = {"int8": 0.005, "int8-static": 0.02, "int4": 0.15, "int4-odd": 0.15}
"""The most that the loss of the trained model may grow, in nats; its loss is about a third of one."""


@pytest.fixture(scope="module")
def trained() -> Transformer:
    """A model that has learned which token follows which."""
    trainer = plain_trainer(LM.largest(), steps=150, batch_size=8, weight_decay=0.01)
    while not trainer.finished:
        trainer.step()
    model = trainer.model.eval()
    assert isinstance(model, Transformer) and loss(model) < 0.5
    return model


def batches(model: Transformer, n: int = 2) -> list[Batch]:
    return [Rows().batch(i, 8, 5) for i in range(n)]


def loss(model: Transformer) -> float:
    with torch.no_grad():
        return sum(float(torch.nn.functional.cross_entropy(run_model(model, model.arch, batch).flatten(0, 1),
                                                           batch.labels.flatten()))
                   for batch in batches(model, 4)) / 4


def made(model: Transformer, scheme: str) -> Quantised:
    found = quantise(model, SCHEMES[scheme])
    if found.how.activations == "static":
        calibrate(found, batches(model))
    return found


@pytest.mark.parametrize("scheme", SCHEMES)
def test_little_quality_is_lost(trained: Transformer, scheme: str) -> None:
    assert loss(made(trained, scheme)) - loss(trained) < WORSE[scheme]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_it_comes_back_as_it_was(trained: Transformer, scheme: str, tmp_path: Path) -> None:
    before, tokens = made(trained, scheme), batches(trained)[0].tokens
    save_model(before, tmp_path)
    after = Transformer.from_pretrained(tmp_path, dropout=0.3)
    assert isinstance(after, Quantised) and after.how == before.how and not after.training
    assert torch.equal(before(tokens), after(tokens))
    plain = dequantised(before)
    assert type(plain) is Transformer and all(each.dtype == torch.float32 for each in plain.parameters())
    assert torch.equal(dequantised(after)(tokens), plain(tokens)) and dequantised(plain) is plain
    assert plain.state_dict().keys() == trained.state_dict().keys()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_it_writes_token_by_token_what_it_says_at_once(trained: Transformer, scheme: str) -> None:
    model, tokens = made(trained, scheme), batches(trained)[0].tokens
    cache, found = model.start(len(tokens)), []
    for i in range(tokens.shape[1]):
        logits, cache = model.decode(tokens[:, i : i + 1], cache)
        found.append(logits)
    assert torch.allclose(torch.cat(found, 1), model(tokens), atol=1e-4)
    assert model.generate(tokens[:, :2], 4).shape == (len(tokens), 4)


def test_what_it_stands_for_gives_the_same_integers(trained: Transformer) -> None:
    once = quantise(trained, DYNAMIC)
    twice = quantise(dequantised(once), DYNAMIC)
    for name in once.inputs:
        assert torch.equal(once.get_buffer(name), twice.get_buffer(name)), name


@pytest.mark.parametrize("scheme", ["int8", "int4", "int4-odd"])
def test_its_size_is_what_the_arithmetic_says(trained: Transformer, scheme: str, tmp_path: Path) -> None:
    save_model(made(trained, scheme), tmp_path)
    expected, group = 0, SCHEMES[scheme].group
    kept = matrices(trained)
    for name, tensor in trained.state_dict().items():
        if name not in kept:
            expected += 4 * tensor.numel()
            continue
        n, rows = tensor.shape[1], tensor.numel() // tensor.shape[1]
        groups = math.ceil(n / (group or n))
        expected += (rows * (n + 4) if group is None else
                     rows * (math.ceil(n / 2) + 2 * groups + math.ceil(groups / 2)))
    size = (tmp_path / WEIGHTS).stat().st_size
    header = int.from_bytes((tmp_path / WEIGHTS).read_bytes()[:8], "little") + 8
    assert size == expected + header
    assert sum(each.nbytes for each in stored(made(trained, scheme))[1].values()) == expected


def test_rounding_while_training_is_what_runs_afterwards(trained: Transformer) -> None:
    """So a model that was trained with rounded matrices is as good as its last step was."""
    tokens = batches(trained)[0].tokens
    fixed = made(trained, "int8-static")
    for scales in ({}, {name: fixed.input_scales(name) for name in fixed.inputs}):
        aware = Reweighted(trained, lambda name, weight, scales=scales: Weight.of(
            Int8Matrix(*to_int8(weight), scales.get(name)))).eval()
        assert torch.equal(aware(tokens), (fixed if scales else quantise(trained, DYNAMIC))(tokens))
    aware(tokens).sum().backward()
    assert all(each.grad is not None for each in aware.parameters())


def test_a_map_that_is_read_backwards_has_a_scale_for_either_way() -> None:
    """The head of a factorised table uses the embedding's map the other way round, on values of another size."""
    model = Transformer(LM.smallest(), seed=0).eval()
    assert model.arch.embedding["rank"] != model.arch.width
    found = quantise(model, STATIC)
    calibrate(found, batches(model))
    forward, backward = found.input_scales("embedding.project.weight")
    assert 0 < float(backward) != float(forward) > 0
    table = found.input_scales("embedding.table.weight")
    assert table[0] > 0 and table[1] == 0, "read as a head, and never backwards"


def test_seq2seq_models_too() -> None:
    arch = SEQ2SEQ.largest()
    model = Transformer(arch, seed=0).eval()
    source, target = torch.randint(0, 20, (2, 6)), torch.randint(0, 20, (2, 5))
    mask = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    with torch.no_grad():
        expected = model(source, target, mask=mask)
    for how, far in ((DYNAMIC, 0.05), (INT4, 0.5)):
        found = quantise(model, how)(source, target, mask=mask)
        assert float((found.detach() - expected).norm() / expected.norm()) < far


def test_what_cannot_be_quantised_says_so(trained: Transformer) -> None:
    with pytest.raises(InputError, match="is already int8"):
        quantise(quantise(trained, DYNAMIC), INT4)
    with pytest.raises(InputError, match="is int4 and cannot be trained"):
        Trainer(quantise(trained, INT4), plain_trainer().strategy, recipe(), Rows()).step()
    broken = Transformer(trained.arch, seed=0)
    with torch.no_grad():
        broken.get_parameter("embedding.table.weight")[0, 0] = torch.inf
    with pytest.raises(InputError, match=r"embedding\.table\.weight: contains values that are not finite"):
        quantise(broken, DYNAMIC)


@pytest.mark.parametrize(("change", "says"), [
    ("{", "not valid JSON at line 1, column 2"),
    ({"scheme": "int3"}, "is damaged (scheme"),
    ({"schema_version": 2}, "is damaged (schema_version"),
    ({"group": 8}, "group is used by the scheme int4"),
    ({"activations": None}, "activations is used by the scheme int8"),
    ({"more": 1}, "is damaged (more"),
    ({"scheme": "int4", "activations": None, "group": 8}, "does not fit architecture.json"),
    ({"scheme": "fp32", "activations": None}, "does not fit architecture.json"),
    ({"sparse": ["nowhere"]}, "nowhere is missing"),
    ({"activations": "static"}, "weight_inputs is missing"),
    (None, "does not fit architecture.json"),
])
def test_a_damaged_description_is_one_sentence(trained: Transformer, tmp_path: Path, change: Any, says: str) -> None:
    save_model(quantise(trained, DYNAMIC), tmp_path)
    path = tmp_path / QUANTISATION
    known = json.loads(path.read_text("utf-8"))
    if change is None:
        path.unlink()
    else:
        path.write_text(change if isinstance(change, str) else json.dumps({**known, **change}), "utf-8")
    with pytest.raises(InputError) as error:
        load_model(tmp_path)
    assert says in str(error.value) and len(str(error.value).splitlines()) == 1


def test_wrong_shapes_and_types_are_one_sentence(trained: Transformer, tmp_path: Path) -> None:
    save_model(quantise(trained, INT4), tmp_path)
    path, name = tmp_path / WEIGHTS, "embedding.table.weight"
    good = load_file(path)
    for change, says in (({name: good[name][:, :-1].contiguous()}, "has the shape"),
                         ({name: good[name].float()}, "torch.float32 instead of torch.uint8"),
                         ({name + "_scale": good[name + "_scale"][:-1].contiguous()}, "has the shape")):
        save_file({**good, **change}, path)
        with pytest.raises(InputError, match=says):
            load_model(tmp_path)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(InputError, match="cannot be read"):
        load_model(tmp_path)


def test_a_plain_model_over_a_quantised_one_is_plain(trained: Transformer, tmp_path: Path) -> None:
    save_model(quantise(trained, DYNAMIC), tmp_path)
    save_model(trained, tmp_path)
    assert not (tmp_path / QUANTISATION).exists() and type(load_model(tmp_path)) is Transformer


def test_moving_it_keeps_its_integers(trained: Transformer) -> None:
    model, tokens = quantise(trained, INT4), batches(trained)[0].tokens
    expected = model(tokens)
    moved = model.to("cpu", torch.float64)
    assert moved(tokens).dtype == torch.float64 and torch.allclose(moved(tokens).float(), expected, atol=1e-4)
    assert moved.get_buffer("embedding.table.weight").dtype == torch.uint8
