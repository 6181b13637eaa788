"""Counts multiply-adds of units and other modules on their traced graphs, by fvcore with exact handles.

fvcore's own table is not used: it counts attention as 0, rounds einsum and counts norms.
Every operator must be in `HANDLES` or `ZERO_COST`; others are an error, because a silently incomplete total is worse
than none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
from fvcore.nn.jit_analysis import JitModelAnalysis
from torch import Tensor, nn

from hardware_profiles.quiet import no_warnings
from search_spaces.errors import InputError
from search_spaces.units import Unit
from supernet.build import build_unit
from supernet.call import Call
from supernet.driver import run_unit
from supernet.store import unit_entries

Handle = Callable[[list[Any], list[Any], bool], int]
"""(inputs, outputs, whether bias adds count) of a traced operator -> multiply-adds."""


def _shape(value: Any) -> list[int]:
    return list(value.type().sizes())


def _bias(value: Any, outputs: list[Any], biases: bool) -> int:
    absent = isinstance(value.type(), torch._C.NoneType)
    return math.prod(_shape(outputs[0])) if biases and not absent else 0


def _linear(inputs: list[Any], outputs: list[Any], biases: bool) -> int:
    return math.prod(_shape(inputs[0])) * _shape(inputs[1])[0] + _bias(inputs[2], outputs, biases)


def _matmul(inputs: list[Any], outputs: list[Any], biases: bool) -> int:
    return math.prod(_shape(outputs[0])) * _shape(inputs[0])[-1]


def _added_matmul(inputs: list[Any], outputs: list[Any], biases: bool) -> int:
    return math.prod(_shape(outputs[0])) * _shape(inputs[1])[-1] + _bias(inputs[0], outputs, biases)


def _convolution(inputs: list[Any], outputs: list[Any], biases: bool) -> int:
    return math.prod(_shape(outputs[0])) * math.prod(_shape(inputs[1])[1:]) + _bias(inputs[2], outputs, biases)


def _attention(inputs: list[Any], outputs: list[Any], biases: bool) -> int:
    query, value = _shape(inputs[0]), _shape(inputs[2])
    return math.prod(query[:-1]) * value[-2] * (query[-1] + value[-1])


def _element_wise(inputs: list[Any], outputs: list[Any], biases: bool) -> int:
    return math.prod(_shape(outputs[0]))


def _einsum(inputs: list[Any], outputs: list[Any], biases: bool) -> int:
    terms = inputs[0].toIValue().replace(" ", "").split("->")[0].split(",")
    operands = [_shape(value) for value in inputs[1].node().inputs()]
    if len(terms) > 2 or any("." in term for term in terms):
        raise InputError("einsum", f"{inputs[0].toIValue()!r} cannot be counted; write it with two operands and "
                                   "without ellipsis")
    sizes = {letter: size for term, shape in zip(terms, operands) for letter, size in zip(term, shape)}
    return math.prod(sizes.values()) if len(terms) == 2 else 0


def _whole_numbers(value: Any) -> list[int]:
    """A list that is an argument of a traced operator."""
    return [item.toIValue() for item in value.node().inputs()]


def _fourier(inputs: list[Any], outputs: list[Any], biases: bool) -> int:
    """Each of log2(length) passes has a butterfly for every two numbers: a complex product, four multiply-adds."""
    shape = _shape(outputs[0])
    passes = sum(math.ceil(math.log2(shape[axis])) for axis in _whole_numbers(inputs[2]))
    return 2 * math.prod(shape) * passes


HANDLES: dict[str, Handle] = {
    "aten::linear": _linear,
    "aten::matmul": _matmul,
    "aten::mm": _matmul,
    "aten::bmm": _matmul,
    "aten::addmm": _added_matmul,
    "aten::baddbmm": _added_matmul,
    "aten::_convolution": _convolution,
    "aten::conv1d": _convolution,
    "aten::scaled_dot_product_attention": _attention,
    "aten::addcmul": _element_wise,
    "aten::einsum": _einsum,
    "aten::fft_fft2": _fourier,
}
ZERO_COST = {
    f"aten::{name}"
    for name in """
    add add_ sub rsub mul mul_ div neg pow sqrt rsqrt exp log abs maximum minimum clamp where sign sin cos floor round
    relu gelu silu elu softplus sigmoid tanh glu softmax log_softmax logsumexp layer_norm rms_norm rms_norm_composite
    fused_rms_norm native_layer_norm dropout feature_dropout embedding index index_select gather scatter select slice
    narrow unfold pad constant_pad_nd cat stack split split_with_sizes chunk repeat repeat_interleave expand
    expand_as view reshape flatten unflatten transpose permute t contiguous clone detach squeeze unsqueeze unbind
    mean sum cumsum max min argmax topk sort ones zeros full ones_like zeros_like full_like new_zeros new_ones
    arange tril triu masked_fill eq ne lt le gt ge logical_and logical_or logical_not bitwise_and bitwise_or
    bitwise_not to type_as _to_copy alias lift_fresh resolve_conj numel size Int ScalarImplicit rand randn
    movedim swapaxes roll flip floor_divide remainder one_hot scatter_add index_add diagonal copy_ square
    numpy_T mT matrix_H adjoint tile amax amin any all var std norm prod cumprod reciprocal erf log1p expm1 logaddexp
    leaky_relu hardtanh hardswish hardsigmoid mish selu celu relu6 prelu isnan isinf nan_to_num empty empty_like
    rand_like randn_like bernoulli __and__ __or__ __invert__ broadcast_to broadcast_tensors view_as reshape_as
    avg_pool1d argsort linalg_vector_norm real clamp_min clamp_max eye
    """.split()  # noqa: SIM905 - a list literal would fill a screen
}
"""Operators without relevant multiply-adds: element-wise, normalising, moving data."""


SMALL = 4_000_000
"""Maximum number of weights for which running a unit is faster than tracing it on the meta device."""


class _Probe(nn.Module):
    """A unit as a function of tensors, for tracing."""

    def __init__(self, unit: Unit) -> None:
        super().__init__()
        self.role = unit.role
        self.unit = build_unit(unit)
        shapes: dict[str, tuple[int, ...]] = getattr(self.unit, "tied_shapes", dict)()
        self.tied: dict[str, Tensor] = {name: torch.empty(shape) for name, shape in shapes.items()}

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        return run_unit(self.role, self.unit, x, Call(memory=memory), self.tied)[0]


@lru_cache(maxsize=200_000)
def unit_macs(unit: Unit, length: int, memory_length: int = 1, biases: bool = False) -> int:
    """Multiply-adds of a unit on one sequence.

    Args:
        length: tokens of the sequence; the unit runs on its share of them.
        memory_length: tokens of the source, for cross-attention.
        biases: whether adding a bias counts as one multiply-add per element.

    Raises:
        InputError: the unit uses an operator without a counting rule.
    """
    small = sum(entry.numel for entry in unit_entries(unit)) <= SMALL
    for device in ("cpu", "meta") if small else ("meta", "cpu"):  # not every operator (conv1d) works without storage
        try:
            return _traced(unit, unit.length(length), memory_length, biases, device)
        except InputError:
            raise
        except (IndexError, MemoryError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    raise InputError(f"multiply-adds of {unit}", f"cannot be traced: {reason}")


def _traced(unit: Unit, length: int, memory_length: int, biases: bool, device: str) -> int:
    with torch.device(device), torch.no_grad():
        probe = _Probe(unit).eval()
        width = int(dict(unit.facts).get("width", 1))
        x = torch.zeros(1, length, dtype=torch.long) if unit.role == "embedding" else torch.zeros(1, length, width)
        memory = torch.zeros(1, memory_length, width)
        return module_macs(probe, (x, memory), unit.block.kind, biases)


def module_macs(module: nn.Module, inputs: tuple[Tensor, ...], name: str, biases: bool = False) -> int:
    """Multiply-adds of one call of a module.

    Args:
        name: of the module, in an error.
        biases: whether adding a bias counts as one multiply-add per element.

    Raises:
        InputError: it uses an operator without a counting rule.
    """
    with torch.no_grad():
        analysis = JitModelAnalysis(module, inputs)
        for operator, handle in HANDLES.items():
            analysis.set_op_handle(operator, lambda inputs, outputs, handle=handle: handle(inputs, outputs, biases))
        for operator in ZERO_COST:
            analysis.set_op_handle(operator, None)
        analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False)
        with no_warnings(), _one_thread():  # the tracer warns of fixed Python values, but lengths are fixed here
            total = int(analysis.total())
            unknown = sorted(analysis.unsupported_ops())
    if unknown:
        raise InputError(f"multiply-adds of {name}",
                         f"the operator {', '.join(unknown)} has no MAC count; add it to HANDLES or ZERO_COST of "
                         "nas.core.macs")
    return total


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread, because units are small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
