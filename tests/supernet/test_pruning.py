"""Pruned models: which weights go, that they stay away, and that their zeros take no room."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from search_spaces import InputError
from supernet import Transformer
from supernet.compression.matrices import Reweighted, matrices, plain_model
from supernet.compression.pruning import magnitude_masks, masked, sparsity, weights, zeros
from supernet.compression.quantised import DYNAMIC, Quantisation, dequantised, quantise
from supernet.compression.sparse import is_sparse, pack, unpack
from supernet.pretrained import QUANTISATION, WEIGHTS, load_model, save_model
from supernet.train.step import Trainer
from tests.supernet.toys import LM, Rows, plain_trainer


def fresh() -> Transformer:
    """A model whose matrices are of like size, as training makes them; tables start so small that all would go."""
    model = Transformer(LM.largest(), seed=0).eval()
    with torch.no_grad():
        for each in model.parameters():
            each.add_(torch.randn(each.shape, generator=torch.Generator().manual_seed(0)) * 0.3)
    return model


def pruned(share: float) -> Transformer:
    model = fresh()
    masks = magnitude_masks(model, share)
    return plain_model(model.arch, {name: masked(each, masks.get(name)) for name, each in model.state_dict().items()})


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_the_smallest_weights_of_all_go_and_no_others(share: float) -> None:
    model = fresh()
    masks = magnitude_masks(model, share)
    every = torch.cat([each.abs().flatten() for each in weights(model).values()])
    kept = torch.cat([masks[name].flatten() for name in weights(model)])
    assert int((~kept).sum()) == round(share * every.numel())
    assert every[~kept].max() <= every[kept].min()
    assert sparsity(pruned(share)) == pytest.approx(share, abs=1e-3)
    more = magnitude_masks(pruned(share), share + 0.05)
    assert all(not bool((more[name] & ~masks[name]).any()) for name in masks), "what is gone stays gone"


def test_weights_stay_away_while_the_others_are_trained() -> None:
    start = pruned(0.5)
    masks = zeros(start)
    assert masks.keys() == matrices(start).keys()
    model = Reweighted(start, lambda name, weight: masked(weight, masks.get(name)))
    trainer = Trainer(model, plain_trainer().strategy, plain_trainer(ema=0.5).recipe, Rows())
    with torch.no_grad():
        before = start(Rows().batch(0, 4, 0).tokens)
    assert torch.equal(model.eval()(Rows().batch(0, 4, 0).tokens), before)
    for _ in range(3):
        trainer.step()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or name not in masks or not parameter.grad[~masks[name]].any()
    trained = model.state_dict()
    changed = plain_model(start.arch, {name: masked(each, masks.get(name)) for name, each in trained.items()})
    assert zeros(changed).keys() == masks.keys()
    assert all(torch.equal(mask, masks[name]) for name, mask in zeros(changed).items())
    tokens = Rows().batch(0, 4, 0).tokens
    assert torch.equal(changed(tokens), model.eval()(tokens)) and not torch.equal(changed(tokens), before)
    assert model.state_dict().keys() == start.state_dict().keys()


def test_a_matrix_that_lost_very_few_keeps_them_away_too() -> None:
    model = fresh()
    with torch.no_grad():
        largest = max(weights(model).items(), key=lambda each: each[1].numel())[0]
        model.get_parameter(largest).mul_(1000)
        model.get_parameter(largest)[0, 0] = 1e-9
    masks = magnitude_masks(model, 0.3)
    gone = plain_model(model.arch, {name: masked(each, masks.get(name)) for name, each in model.state_dict().items()})
    assert not is_sparse(weights(gone)[largest]) and not masks[largest][0, 0]
    assert all(torch.equal(mask, masks[name]) for name, mask in zeros(gone).items()) and largest in zeros(gone)
    assert zeros(fresh()) == {}


def test_zeros_take_a_bit_each() -> None:
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.int8):
        for n in (1, 7, 8, 1000, 1001):
            tensor = torch.randint(1, 100, (n,)).to(dtype)
            tensor[: n // 2] = 0
            tensor = tensor[torch.randperm(n)].view(1, n)
            small = pack({"a": tensor, "b": tensor}, ["a"])
            assert small.keys() == {"a.bits", "a.values", "b"}
            size = small["a.bits"].nbytes + small["a.values"].nbytes
            assert size == -(-n // 8) + (n - n // 2) * tensor.element_size()
            assert is_sparse(tensor) == (size < tensor.nbytes)
            back = unpack(small, {"a": (1, n)})
            assert torch.equal(back["a"], tensor) and back["a"].dtype == dtype


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_a_pruned_model_is_smaller_on_the_disk_and_comes_back(tmp_path: Path, share: float) -> None:
    model, tokens = pruned(share), Rows().batch(0, 4, 0).tokens
    save_model(model, tmp_path)
    description = json.loads((tmp_path / QUANTISATION).read_text("utf-8"))
    assert description["scheme"] == "fp32" and description["sparse"]
    back = load_model(tmp_path)
    assert type(back) is Transformer and torch.equal(back(tokens), model(tokens))
    total = sum(each.numel() for each in weights(model).values())
    others = sum(each.numel() for each in model.state_dict().values()) - total
    data = sum(each.nbytes for each in load_file(tmp_path / WEIGHTS).values())
    assert data <= 4 * others + 4 * total * (1 - share) + total / 8 + 4 * len(weights(model)) + 4
    assert data < 4 * (others + total * (1 - share + 0.1))


def test_zeros_outlive_quantisation(tmp_path: Path) -> None:
    model = pruned(0.6)
    for how in (DYNAMIC, Quantisation(scheme="int4", group=8)):
        made = quantise(model, how)
        plain = dequantised(made)
        assert all(not weights(plain)[name][~mask].any() for name, mask in zeros(model).items())
        save_model(made, tmp_path)
        tokens = Rows().batch(0, 4, 0).tokens
        assert torch.equal(load_model(tmp_path)(tokens), made(tokens))
        if how == DYNAMIC:
            assert json.loads((tmp_path / QUANTISATION).read_text("utf-8"))["sparse"], "int8 zeros take a bit, too"


def test_damaged_bits_are_one_sentence(tmp_path: Path) -> None:
    save_model(pruned(0.5), tmp_path)
    path, name = tmp_path / WEIGHTS, "embedding.table.weight"
    good = load_file(path)
    for change, says in (({name + ".bits": good[name + ".bits"][:-1]}, "bytes instead of"),
                         ({name + ".values": good[name + ".values"][1:]}, "numbers instead of")):
        save_file({each: tensor.clone() for each, tensor in {**good, **change}.items()}, path)
        with pytest.raises(InputError, match=says) as error:
            load_model(tmp_path)
        assert len(str(error.value).splitlines()) == 1
    del good[name + ".bits"]
    save_file(good, path)
    with pytest.raises(InputError, match="bits is missing"):
        load_model(tmp_path)


def test_a_model_that_was_not_pruned_is_stored_as_it_is(tmp_path: Path) -> None:
    save_model(Transformer(LM.largest(), seed=0), tmp_path)
    assert not (tmp_path / QUANTISATION).exists()
