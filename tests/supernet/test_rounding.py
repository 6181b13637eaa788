"""Eight and four bits: what is lost, what is not, and products that are those of integers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from supernet.compression.matrices import Weight
from supernet.compression.rounding import MOST, Int4Matrix, Int8Matrix, pack, to_int4, to_int8, unpack
from supernet.layers.dextra import GroupLinear

SHAPES = [(5, 7), (12, 32), (1, 1), (3, 33), (4, 48, 6), (2, 5, 3)]


def matrix(shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    """Values of very different size, a row of zeros and a single great one among them."""
    generator = torch.Generator().manual_seed(seed)
    made = torch.randn(shape, generator=generator) * 10 ** torch.randn(shape, generator=generator)
    made[0] = 0
    made.view(-1)[-1] = 1e4
    return made


@pytest.mark.parametrize("shape", SHAPES)
def test_int8_is_half_a_step_off_at_most_and_the_same_when_done_twice(shape: tuple[int, ...]) -> None:
    weight = matrix(shape)
    q, scale = to_int8(weight)
    kept = Int8Matrix(q.to(torch.int8), scale)
    assert kept.q.dtype == torch.int8 and int(kept.q.abs().max()) == MOST
    assert bool(((kept.values() - weight).abs() <= scale.unsqueeze(1) / 2 * (1 + 1e-5)).all())
    again, _ = to_int8(kept.values())
    assert torch.equal(again, q)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("group", [2, 5, 32])
def test_int4_is_half_a_step_off_at_most_and_keeps_zeros(shape: tuple[int, ...], group: int) -> None:
    weight = matrix(shape)
    weight.view(-1)[1::3] = 0
    n = weight.shape[1]
    q, scale, zero = to_int4(weight, group)
    rows = weight.numel() // n
    groups = -(-n // group)
    assert q.dtype == zero.dtype == torch.uint8
    assert q.numel() == rows * -(-n // 2) and scale.numel() == rows * groups
    assert zero.numel() == rows * -(-groups // 2), "two values a byte, whatever the width"
    kept = Int4Matrix(q, scale, zero, n, group)
    steps = scale.float().repeat_interleave(group, -1)[..., :n].movedim(-1, 1)
    assert kept.values().shape == weight.shape
    assert bool(((kept.values() - weight).abs() <= steps / 2 * (1 + 1e-5)).all())
    assert not kept.values()[weight == 0].any()


def test_two_values_a_byte_come_back() -> None:
    for n in (1, 2, 7, 8):
        values = torch.randint(0, 16, (3, n))
        assert torch.equal(unpack(pack(values), n), values.to(torch.uint8))


def test_rows_are_those_of_the_table() -> None:
    table, ids = matrix((9, 5)), torch.tensor([[3, 0], [8, 3]])
    for kept in (Int8Matrix(*to_int8(table)), Int4Matrix(*to_int4(table, 2), 5, 2)):
        assert torch.equal(kept.rows(ids), kept.values()[ids])


def integers(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return (x / scale).round().clamp(-MOST, MOST).long()


@pytest.mark.parametrize("fixed", [False, True])
def test_products_are_those_of_integers(fixed: bool) -> None:
    torch.manual_seed(0)
    inputs = torch.tensor([0.02, 0.0005]) if fixed else None
    x, back, grouped = torch.randn(2, 3, 700), torch.randn(3, 6), torch.randn(4, 3, 5)

    def scale_of(x: torch.Tensor, use: int) -> torch.Tensor:
        return inputs[use] if inputs is not None else x.abs().amax(-1, keepdim=True) / MOST

    q, scale = to_int8(torch.randn(6, 700))
    kept, sx = Int8Matrix(q.to(torch.int8), scale, inputs), scale_of(x, 0)
    assert torch.equal(kept.linear(x), (integers(x, sx) @ q.long().T).float() * (sx * scale)), "exact up to 1040 terms"

    folded = back * scale
    expected = (integers(folded, scale_of(folded, 1)) @ q.long()).float() * scale_of(folded, 1)
    assert torch.equal(kept.turned(back), expected)
    assert torch.allclose(kept.turned(back), back @ kept.values(), atol=0.2)

    q, scale = to_int8(torch.randn(4, 5, 6))
    kept, sx = Int8Matrix(q.to(torch.int8), scale, inputs), scale_of(grouped, 0)
    expected = torch.bmm(integers(grouped, sx), q.long()).float() * (sx * scale[:, None])
    assert torch.equal(kept.grouped(grouped), expected)


def test_gradients_pass_straight_through_and_stop_outside_the_range() -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(4, 8, requires_grad=True), torch.randn(5, 8, requires_grad=True)
    Int8Matrix(*to_int8(weight)).linear(x).sum().backward()
    with torch.no_grad():
        used = Int8Matrix(*to_int8(weight)).values()
        seen = (x / (scale := x.abs().amax(-1, keepdim=True) / MOST)).round() * scale
    assert weight.grad is not None and torch.allclose(weight.grad, seen.sum(0).expand(4, 8), atol=1e-4)
    assert x.grad is not None and torch.allclose(x.grad, used.sum(0).expand(5, 8), atol=1e-4)

    x = torch.tensor([[0.5, 3.0]], requires_grad=True)
    Int8Matrix(*to_int8(torch.ones(1, 2)), torch.tensor([1 / MOST, 0.0])).linear(x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[pytest.approx(1.0), 0.0]]


@pytest.mark.parametrize("make", [
    lambda weight: Int8Matrix(*to_int8(weight)), lambda weight: Int4Matrix(*to_int4(weight, 4), weight.shape[1], 4)])
def test_modules_take_such_weights_as_their_own(make: object) -> None:
    torch.manual_seed(0)
    linear, table, grouped = nn.Linear(6, 4), nn.Embedding(7, 6), GroupLinear((6,), 3, 2)
    nn.init.normal_(grouped.weight)
    x, ids = torch.randn(2, 3, 6), torch.tensor([[1, 6]])
    for module, given in ((linear, x), (table, ids), (grouped, x.reshape(1, 3, 2, 6))):
        kept = make(module.weight)  # type: ignore[operator]
        found = torch.func.functional_call(module, {"weight": Weight.of(kept)}, (given,))
        expected = torch.func.functional_call(module, {"weight": kept.values()}, (given,))
        assert torch.allclose(found, expected, atol=0.1) and found.shape == expected.shape
    weight = Weight.of(make(linear.weight))  # type: ignore[operator]
    assert weight.shape == (4, 6) and weight.dtype == torch.float32
    assert torch.equal(weight[1:3], weight.matrix.values()[1:3]), "anything else sees the values"
    assert torch.cat([weight, weight]).shape == (8, 6)
