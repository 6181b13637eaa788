"""Tables of repeated sub-vectors: kept small, without loss."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from search_spaces import InputError, load_space
from supernet import Transformer
from supernet.compression import codebooks
from supernet.compression.codebooks import BOOKS, CODES
from supernet.pretrained import QUANTISATION, WEIGHTS, load_model, save_model
from supernet.train.checkpoint import load_tensors, save_tensors


def table(rows: int, n_blocks: int, size: int, distinct: int) -> torch.Tensor:
    """A table whose blocks have so many different sub-vectors."""
    generator = torch.Generator().manual_seed(rows)
    books = torch.randn(n_blocks, distinct, size, generator=generator)
    codes = torch.randint(distinct, (rows, n_blocks), generator=generator)
    return books[torch.arange(n_blocks), codes].flatten(1)


@pytest.mark.parametrize(("rows", "n_blocks", "size", "distinct"), [
    (1000, 4, 8, 16), (999, 3, 5, 7), (5000, 2, 4, 256), (300, 1, 6, 2), (400, 6, 1, 100)])
def test_what_is_packed_comes_back_and_is_smaller(rows: int, n_blocks: int, size: int, distinct: int) -> None:
    tensor = table(rows, n_blocks, size, distinct)
    assert codebooks.repeats(tensor)
    packed = codebooks.pack({"a": tensor, "b": tensor}, ["a"])
    assert set(packed) == {"a" + CODES, "a" + BOOKS, "b"}
    assert packed["a" + CODES].nbytes + packed["a" + BOOKS].nbytes < tensor.nbytes
    assert torch.equal(codebooks.unpack(packed, {"a": tuple(tensor.shape)})["a"], tensor)


@pytest.mark.parametrize("tensor", [
    torch.randn(2000, 16), torch.randn(10, 4), torch.zeros(0, 4), torch.randn(40), torch.randn(4, 40, 8),
    torch.randint(-9, 9, (900, 8)).to(torch.int8)])
def test_what_does_not_repeat_is_left_alone(tensor: torch.Tensor) -> None:
    assert not codebooks.repeats(tensor)


def test_a_model_with_such_a_table_is_kept_small_and_loads(tmp_path: Path) -> None:
    model = Transformer(load_space("lm-tiny").smallest(), seed=0)
    (name, weight), = ((name, each) for name, each in model.named_parameters() if "embedding" in name
                       and each.shape[0] == model.arch.vocab_size)
    weight.data = table(*weight.shape[:1], weight.shape[1] // 4, 4, 16)
    save_model(model, tmp_path)
    before, loaded = model.state_dict(), load_model(tmp_path)
    assert type(loaded) is Transformer and all(torch.equal(before[key], each) for key, each in
                                               loaded.state_dict().items())
    assert name in (tmp_path / QUANTISATION).read_text("utf-8")
    tensors = load_tensors(tmp_path / WEIGHTS, "")
    tensors[name + CODES] = tensors[name + CODES][:-1]
    save_tensors(tensors, tmp_path / WEIGHTS)
    with pytest.raises(InputError, match="does not fit quantisation.json: .*codes has .* bytes instead of"):
        load_model(tmp_path)
