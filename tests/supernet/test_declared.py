"""Blocks of somebody else with bare parameters: quantised and pruned where declared, refused by name where not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from search_spaces import Architecture, InputError
from search_spaces import registry as kinds
from search_spaces.files.loader import space_from_text
from search_spaces.kind import Dim, Kind
from supernet import Transformer
from supernet.batch import Batch
from supernet.call import Call
from supernet.compression.calibration import calibrate
from supernet.compression.heads import attentions
from supernet.compression.matrices import Reweighted, matrices
from supernet.compression.pruning import magnitude_masks, sparsity
from supernet.compression.quantised import DYNAMIC, STATIC, Quantisation, dequantised, quantise
from supernet.compression.rounding import Int4Matrix, Int8Matrix, to_int4, to_int8
from supernet.declared import Product
from supernet.layout import Layout
from supernet.pretrained import load_model, save_model


class Bare(nn.Module):
    """A feed-forward of two bare matrices, one of them (in, out), and a convolution that is none."""

    def __init__(self, *, width: int, inner: int) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.empty(width, inner))
        self.up_shift = nn.Parameter(torch.zeros(inner))
        self.down = nn.Parameter(torch.empty(width, inner))
        self.smooth = nn.Conv1d(width, width, 1, groups=width, bias=False)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        y = nn.functional.linear((x @ self.up + self.up_shift).relu(), self.down)
        return self.smooth(y.transpose(1, 2)).transpose(1, 2)

    def layouts(self) -> dict[str, Layout]:
        return {"up": Layout(inputs=(0,)), "up_shift": Layout(init="zeros"), "smooth.weight": Layout(init="ones")}


class Declared(Bare):
    def matrices(self) -> dict[str, Product]:
        return {"up": Product.MATMUL, "down": Product.LINEAR, "smooth.weight": Product.NONE}


class Partly(Bare):
    def matrices(self) -> dict[str, Product]:
        return {"up": Product.MATMUL, "down": Product.LINEAR}


SCHEMES = {DYNAMIC: 0.1, STATIC: 0.3, Quantisation(scheme="int4", group=8): 0.7}
TOKENS = torch.arange(12).view(2, 6)
PATH = "decoder.0.ffn.block"


def architecture(monkeypatch: pytest.MonkeyPatch, module: type[nn.Module]) -> Architecture:
    kind = Kind("bare", "ffn", module, dims=(Dim("inner", int, "inner width"),), facts=("width",))
    monkeypatch.setitem(kinds.registry(), "bare", kind)
    return space_from_text("""
{schema_version: 1, name: bare, family: lm, vocab_size: 20, context: 8, width: 16, embedding: {lookup: {}},
 head: {tied: {}}, decoder: {slots: 2, layers: {one: {mixer: {conv: {kernel: 3}}, ffn: {bare: {inner: 24}}}}}}
""", "bare").largest()


def randomised(arch: Architecture) -> Transformer:
    model = Transformer(arch, seed=0).eval()
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.add_(torch.randn(tensor.shape, generator=torch.Generator().manual_seed(1)) * 0.1)
    return model


def test_what_is_declared_is_quantised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = randomised(architecture(monkeypatch, Declared))
    assert {f"{PATH}.up", f"{PATH}.down"} <= matrices(model).keys() and f"{PATH}.smooth.weight" not in matrices(model)
    with torch.no_grad():
        expected = model(TOKENS)
        for how, far in SCHEMES.items():
            found = quantise(model, how)
            if how == STATIC:
                calibrate(found, [Batch(TOKENS, TOKENS)])
            assert found.get_buffer(f"{PATH}.up").dtype in (torch.int8, torch.uint8)
            assert float((found(TOKENS) - expected).norm() / expected.norm()) < far
            assert torch.allclose(dequantised(found)(TOKENS), expected, atol=far * float(expected.abs().max()))
            shift = f"{PATH}.up_shift"
            assert torch.equal(dequantised(found).get_parameter(shift), found.get_parameter(shift))
            save_model(found, tmp_path)
            assert torch.equal(load_model(tmp_path)(TOKENS), found(TOKENS))


def test_what_is_declared_is_pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    model = randomised(architecture(monkeypatch, Declared))
    masks = magnitude_masks(model, 0.5)
    assert masks.keys() == matrices(model).keys() and not masks[f"{PATH}.up"].all()
    used = Reweighted(model, lambda name, weight: torch.where(masks[name], weight, 0.0))
    with torch.no_grad():
        for name, mask in masks.items():
            model.get_parameter(name).mul_(mask)
        # F.linear multiplies a batch in one product or row by row, depending on whether the weight needs a gradient.
        torch.testing.assert_close(used(TOKENS), model(TOKENS), rtol=1e-6, atol=1e-6)
    assert sparsity(model) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(("module", "parameter"), [(Bare, "block.up"), (Partly, "block.smooth.weight")])
def test_what_nobody_declared_is_refused_by_name(module: type[nn.Module], parameter: str, tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    model = randomised(architecture(monkeypatch, module))
    says = rf"block bare: the parameter {parameter} of shape \(16, .*\) is not declared.*matrices\(\)"
    for refused in (lambda: quantise(model, DYNAMIC), lambda: magnitude_masks(model, 0.5), lambda: sparsity(model),
                    lambda: Reweighted(model, lambda name, weight: weight)):
        with pytest.raises(InputError, match=says):
            refused()
    save_model(model, tmp_path)
    assert torch.equal(load_model(tmp_path)(TOKENS), model(TOKENS)), "what is not compressed needs no declaration"


@pytest.mark.parametrize("axis", [0, 1])
def test_products_sum_over_either_axis(axis: int) -> None:
    weight = torch.randn(6, 8) * torch.logspace(-2, 2, 6 if axis else 8).view(*((-1, 1) if axis else (1, -1)))
    for kept in (Int8Matrix(*to_int8(weight, axis), axis=axis),
                 Int4Matrix(*to_int4(weight, 4, axis), weight.shape[axis], 4, axis)):
        values, ids = kept.values(), torch.tensor([3, 0])
        assert values.shape == weight.shape and torch.allclose(kept.rows(ids), values[ids])
        for x, found, expected in ((torch.randn(5, 8), kept.linear, lambda x, values=values: x @ values.T),
                                   (torch.randn(5, 6), kept.turned, lambda x, values=values: x @ values)):
            assert float((found(x) - expected(x)).norm() / expected(x).norm()) < 0.05


def test_heads_are_those_that_blocks_declare() -> None:
    arch = space_from_text("""
{schema_version: 1, name: heads, family: lm, vocab_size: 20, context: 8, width: 16, embedding: {lookup: {}},
 head: {tied: {}}, decoder: {slots: 2, layers: {one: {mixer: {choose: {by_slot: [attention, lsra]},
   attention: {n_heads: 4, head_dim: 4, n_kv_heads: 2}, lsra: {ratio: 0.5, n_heads: 2, kernel: 3}},
   ffn: {ffn: {inner: 1x}}}}}}""", "heads").largest()
    ((path, (name, heads)),) = attentions(model := Transformer(arch, seed=0)).items()
    assert path == "decoder.0.mixer" and (heads.n_heads, heads.n_kv_heads, heads.head_dim) == (4, 2, 4)
    tensors = model.state_dict()
    for tensor, (axis, queries) in heads.tensors.items():
        assert tensors[f"{name}.{tensor}"].shape[axis] == 4 * (4 if queries else 2)
