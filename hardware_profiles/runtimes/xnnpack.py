"""ExecuTorch with the XNNPACK delegate, as it runs on phones and small computers.

`compile` traces the module with the operators of `_lowering`, folds what depends on weights alone, and lowers it; int8
quantises linear maps (weights per channel, inputs dynamically) and the rows of embedding tables.
`not_delegated` is the share of the work outside of XNNPACK: multiply-adds of matrix products and convolutions, and
elements written by every other operator except views. `not_quantised` is the share of the multiply-adds that int8
leaves in fp32.

XNNPACK's thread pool is per process: all models of a process run with the same number of threads.
"""

# mypy: disable-error-code="import-untyped, import-not-found"

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

SUFFIX = ".pte"
PRECISIONS = ("fp32", "int8")
OPTIONS = ()

_VIEWS = ("view", "permute", "transpose", "unsqueeze", "squeeze", "expand", "slice", "clone", "getitem", "alloc")
_PRODUCTS = ("mm.default", "linear.default", "convolution.default")
"""Ends of the names of operators that multiply and add."""
QUANTISING = ("quantized_decomposed", "torchao")
"""Namespaces of the operators that quantise; folding them would undo it."""
_used: list[int] = []
"""The number of threads that models of this process run with."""


def missing() -> str | None:
    """Why it is not available here; None if it is."""
    from importlib.util import find_spec

    if find_spec("executorch") is None:
        return "executorch is not installed; run `pip install 'paretoformer[mobile]'`"
    return None


def versions() -> dict[str, str]:
    """Versions that its timings depend on."""
    from importlib.metadata import version

    return {"executorch": version("executorch"), "torch": version("torch")}


def load(source: str, inputs: Any, options: dict[str, Any]) -> Callable[[], float]:
    """A function that runs the program once and returns the seconds."""
    import torch

    program = _program(source, options)
    tensors = [torch.from_numpy(array) for array in inputs]

    def run() -> float:
        start = time.perf_counter()
        program.forward(tensors, clone_outputs=False)
        return time.perf_counter() - start

    return run


def call(source: str, options: dict[str, Any]) -> Callable[[Sequence[Any]], list[Any]]:
    """A function from inputs to outputs, all NumPy arrays."""
    import torch

    program = _program(source, options)
    return lambda inputs: [array.numpy() for array in program.forward([torch.from_numpy(array) for array in inputs])]


def _program(source: str, options: dict[str, Any]) -> Any:
    with _quiet():
        from executorch.extension.pybindings import portable_lib

        _set_threads(portable_lib, int(options["threads"]))
        return portable_lib._load_for_executorch(str(source))


def _set_threads(library: Any, threads: int) -> None:
    """Set the size of XNNPACK's pool before the first program is loaded, which keeps a pointer to it."""
    if _used and _used[0] != threads:
        raise RuntimeError(f"xnnpack runs with {_used[0]} threads in this process; {threads} threads need a new "
                           "process")
    if not _used:
        library._unsafe_reset_threadpool(threads)
        actual = library._threadpool_get_thread_count()
        if actual != threads:
            raise RuntimeError(f"xnnpack was set to {threads} threads but uses {actual}")
        _used.append(threads)


def compile(module: Any, inputs: Any, path: str, options: dict[str, Any]) -> dict[str, float]:
    """Lower the module and write the program; returns `not_delegated`, and `not_quantised` for int8.

    Raises:
        InputError: an operator is not supported; it is named.
    """
    from search_spaces.errors import InputError

    try:
        with _quiet():
            edge = _lower(module, tuple(inputs), options["precision"] == "int8")
            _drop_unused(edge.exported_program())
            program = edge.to_executorch()
            unknown = _without_kernel(program)
    except OSError:
        raise
    except Exception as error:
        raise InputError("xnnpack", _reason(error)) from error
    if unknown:
        raise InputError("xnnpack", f"the operator {unknown} has no kernel; remove blocks that use it from the space")
    part = f"{path}.part"
    with open(part, "wb") as file:
        file.write(program.buffer)
    os.replace(part, path)
    graph = edge.exported_program().graph_module
    facts = {"not_delegated": _not_delegated(graph)}
    return facts if options["precision"] == "fp32" else {**facts, "not_quantised": _not_quantised(graph)}


def _lower(module: Any, inputs: Any, quantised: bool) -> Any:
    import torch
    from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.backends.xnnpack.utils.configs import get_xnnpack_edge_compile_config
    from executorch.exir import to_edge_transform_and_lower
    from executorch.exir.passes.constant_prop_pass import constant_prop_pass

    from hardware_profiles.runtimes._lowering import Rewritten, without_history

    def delegated(*partitioners: Any) -> Any:
        return to_edge_transform_and_lower(exported, partitioner=list(partitioners),
                                           compile_config=get_xnnpack_edge_compile_config())

    with torch.no_grad(), without_history():
        with Rewritten(quantised):
            exported = torch.export.export(module, inputs)
        if quantised:
            exported = torch.export.export(_quantised(exported.module(), inputs), inputs)
        called = {node.target for node in exported.graph.nodes if node.op == "call_function"}
        kept = {target for target in called if getattr(target, "namespace", "") in QUANTISING}
        exported = constant_prop_pass(exported, custom_skip_targets=kept)
        try:
            return delegated(XnnpackPartitioner())
        except AssertionError:  # two partitioners: first each quantised map separately, then the rest
            if not quantised:
                raise
            one_by_one = XnnpackPartitioner(config_precisions=ConfigPrecisionType.DYNAMIC_QUANT, per_op_mode=True)
            return delegated(one_by_one, XnnpackPartitioner())


def _drop_unused(exported: Any) -> None:
    """Drop constants that others were folded from: they would be written into the file, too."""
    from torch.export.graph_signature import InputKind

    nodes = {node.name: node for node in exported.graph.nodes if node.op == "placeholder"}
    for spec in list(exported.graph_signature.input_specs):
        if spec.kind == InputKind.CONSTANT_TENSOR and not nodes[spec.arg.name].users:
            exported.graph_signature.input_specs.remove(spec)
            exported.graph.erase_node(nodes[spec.arg.name])
            del exported.constants[spec.target]
    exported.graph_module.recompile()


def _quantised(module: Any, inputs: Any) -> Any:
    """Linear maps in int8: weights per channel, inputs with a scale computed at every call."""
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True)
    prepared = prepare_pt2e(module, XNNPACKQuantizer().set_global(config))
    prepared(*inputs)
    return convert_pt2e(prepared)


def _nodes(graph_module: Any) -> Iterator[tuple[Any, bool]]:
    """The operators of a lowered model, and whether XNNPACK runs them."""
    for node in graph_module.graph.nodes:
        if node.op == "get_attr" and hasattr(getattr(graph_module, str(node.target), None), "original_module"):
            yield from ((inner, True) for inner in getattr(graph_module, str(node.target)).original_module.graph.nodes)
        else:
            yield node, False


def _not_delegated(graph_module: Any) -> float:
    """The share of the work outside of XNNPACK."""
    work = [(_work(node), inside) for node, inside in _nodes(graph_module)]
    total = sum(amount for amount, _ in work)
    return sum(amount for amount, inside in work if not inside) / total if total else 0.0


def _not_quantised(graph_module: Any) -> float:
    """The share of the multiply-adds of products that are not quantised: of two activations, and convolutions."""
    left = total = 0.0
    for node, _ in _nodes(graph_module):
        if node.op == "call_function" and _operator(node).endswith(_PRODUCTS):
            quantised = sum("dequantize" in str(argument.target) for argument in node.all_input_nodes[:3])
            total += _work(node)
            left += 0.0 if quantised >= 2 else _work(node)
    return left / total if total else 0.0


def _work(node: Any) -> float:
    """Multiply-adds of a product, elements of another operator's result, and nothing for a view."""
    name, value = _operator(node), node.meta.get("val")
    if node.op != "call_function" or any(view in name for view in _VIEWS) or "delegate" in name:
        return 0.0
    value = value[0] if isinstance(value, (tuple, list)) else value
    if not hasattr(value, "numel"):
        return 0.0
    values = (argument.meta.get("val") for argument in node.all_input_nodes)
    shapes = [value.shape for value in values if hasattr(value, "shape")]
    if "convolution" in name:
        return float(value.numel() * shapes[1].numel() / shapes[1][0])
    if "addmm" in name:
        return float(value.numel() * shapes[1][-1])
    return float(value.numel() * (shapes[0][-1] if "mm." in name or "linear" in name else 1))


def _operator(node: Any) -> str:
    """The name of a node's operator, without its schema."""
    return str(node.target).partition(">")[0]


def _without_kernel(program: Any) -> str:
    """An operator outside of XNNPACK that the runtime of this machine does not have; empty if it has all."""
    from executorch.extension.pybindings import portable_lib

    known = set(portable_lib._get_operator_names())
    used = [operator for plan in program.executorch_program.execution_plan for operator in plan.operators]
    names = (f"{operator.name}.{operator.overload}" if operator.overload else operator.name for operator in used)
    return next((name for name in names if name not in known), "")


def _reason(error: Exception) -> str:
    """One sentence: the unsupported operator if the error names one, else the error message."""
    import re

    text = " ".join(str(error).split())
    names = re.findall(r"aten(?:\.|::)(\w+)", text)
    if names:
        return f"the operator {names[0]} cannot be lowered; remove blocks that use it from the space"
    return f"the module cannot be lowered ({text[:200]})"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress output of libraries, from Python and C++. Runs on devices, which have no `hardware_profiles.quiet`."""
    import io
    import logging
    import warnings

    sys.stdout.flush()
    sys.stderr.flush()
    disabled, handlers = logging.root.manager.disable, list(logging.root.handlers)
    saved, silent = [os.dup(1), os.dup(2)], os.open(os.devnull, os.O_WRONLY)
    try:
        for number in (1, 2):
            os.dup2(silent, number)
        logging.disable(logging.ERROR)
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), \
                contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        logging.root.handlers[:] = handlers
        sys.stdout.flush()
        sys.stderr.flush()
        for number, kept in zip((1, 2), saved):
            os.dup2(kept, number)
            os.close(kept)
        os.close(silent)
