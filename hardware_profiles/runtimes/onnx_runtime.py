"""ONNX Runtime, on the CPU or through one of its other execution providers.

int8 quantises the weights of matrix products and the tables that tokens are looked up in, and finds the scale of the
inputs of products at every call. Products of two activations, as attention has, with the weights of groups, written as
Einsum, and convolutions stay in fp32: `not_quantised` is their share of the multiply-adds of all products.
"""

# mypy: disable-error-code="import-untyped, import-not-found"

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

SUFFIX = ".onnx"
PRECISIONS = ("fp32", "int8")
OPTIONS = ("provider",)
OPEN_SIZES = True
DEFAULT_PROVIDER = "CPUExecutionProvider"
ON_GPU = ("CUDAExecutionProvider", "TensorrtExecutionProvider")
"""Providers whose inputs and outputs stay on the GPU, so that no copy is timed."""
PRODUCTS = ("MatMul", "Gemm", "Einsum", "Conv")
"""Operators that multiply and add."""
_registries: dict[int | None, Any] = {}
"""Tables of operators that the exporter has built in this process."""


def missing() -> str | None:
    """Why it is not available here; None if it is."""
    from importlib.util import find_spec

    absent = [name for name in ("onnxruntime", "onnx", "onnxscript") if find_spec(name) is None]
    return f"{absent[0]} is not installed; run `pip install 'paretoformer[onnx]'`" if absent else None


def versions() -> dict[str, str]:
    """Versions that its timings depend on."""
    import onnxruntime

    return {"onnxruntime": onnxruntime.__version__}


def load(source: str, inputs: Any, options: dict[str, Any]) -> Callable[[], float]:
    """A function that runs the model once and returns the seconds."""
    import onnxruntime

    session = _session(source, options)
    where = "cuda" if session.get_providers()[0] in ON_GPU else "cpu"
    binding = session.io_binding()
    for slot, array in zip(session.get_inputs(), inputs):
        binding.bind_ortvalue_input(slot.name, onnxruntime.OrtValue.ortvalue_from_numpy(array, where, 0))
    for slot in session.get_outputs():
        binding.bind_output(slot.name, where)

    def run() -> float:
        start = time.perf_counter()
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        return time.perf_counter() - start

    return run


def call(source: str, options: dict[str, Any]) -> Callable[[Sequence[Any]], list[Any]]:
    """A function from inputs to outputs, all NumPy arrays."""
    session = _session(source, options)
    names = [slot.name for slot in session.get_inputs()]
    return lambda inputs: list(session.run(None, dict(zip(names, inputs))))


def _session(source: str, options: dict[str, Any]) -> Any:
    import onnxruntime

    provider = _provider(options)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads = int(options["threads"]), 1
    settings.log_severity_level = 3
    second = ["CUDAExecutionProvider"] if provider == "TensorrtExecutionProvider" else []  # fallback
    session = onnxruntime.InferenceSession(str(source), settings, providers=[provider, *second])
    if session.get_providers()[0] != provider:
        _refuse(f"{provider} could not be started; see the log of ONNX Runtime for the missing library")
    return session


def _provider(options: dict[str, Any]) -> str:
    """The execution provider of a device, if this build of ONNX Runtime has it."""
    import onnxruntime

    wanted, available = str(options.get("provider", DEFAULT_PROVIDER)), onnxruntime.get_available_providers()
    if wanted not in available:
        _refuse(f"the provider {wanted!r} is not available here; available: {', '.join(available)}")
    return wanted


def _refuse(message: str) -> NoReturn:
    """An error for the user: InputError if this project is installed, RuntimeError on a device without it."""
    try:
        from search_spaces.errors import InputError
    except ImportError:
        raise RuntimeError(message) from None
    raise InputError("onnx-runtime", message)


def compile(module: Any, inputs: Any, path: str, options: dict[str, Any]) -> dict[str, float]:
    """Write the model with its weights into one file; returns `not_quantised` for int8.

    Raises:
        InputError: an operator cannot be exported; the message names it.
    """
    if not hasattr(module, "open_axes"):
        return write(module, inputs, path, options["precision"])
    axes = module.open_axes()
    flat = [names for axis in axes.values() for names in (axis if isinstance(axis, tuple) else (axis,))]
    sizes = {name: int(given.shape[axis]) for given, names in zip(inputs, flat) for axis, size in names.items()
             if (name := getattr(size, "__name__", ""))}
    return write(module, module.traced(), path, options["precision"], sizes, dynamic_shapes=axes)


def write(module: Any, inputs: Any, path: str, precision: str, sizes: dict[str, int] | None = None,
          **naming: Any) -> dict[str, float]:
    """As `compile`; by default its shapes are those of the inputs.

    Args:
        sizes: of dynamic axes in `naming`, for counting what is not quantised.
        naming: of `torch.onnx.export`: names of inputs, outputs and dynamic axes, and the opset.
    """
    from hardware_profiles.quiet import quiet

    part = f"{path}.part"
    try:
        with quiet():
            model, facts = _exported(module, tuple(inputs), naming), {}
            if precision == "int8":
                facts = _quantise(model, part, sizes or {})
            else:
                with open(part, "wb") as file:
                    file.write(model.SerializeToString())
    except OSError:
        raise
    except Exception as error:
        _refuse(_reason(error))
    os.replace(part, path)
    return facts


def _exported(module: Any, inputs: Any, naming: dict[str, Any]) -> Any:
    import torch

    with torch.no_grad(), _kept_registry():
        program = torch.onnx.export(module, inputs, dynamo=True, verbose=False, external_data=False, **naming)
    assert program is not None
    return _bare(program.model_proto)


@contextlib.contextmanager
def _kept_registry() -> Iterator[None]:
    """Make the exporter build its operator table once per process instead of once per call.

    Building it takes 0.9 of the 1.6 seconds of exporting one unit. An exporter without this function is left alone.
    """
    try:
        from torch.onnx._internal.exporter._registration import ONNXRegistry

        build, before = ONNXRegistry.from_torchlib, ONNXRegistry.__dict__["from_torchlib"]
    except (ImportError, AttributeError, KeyError):
        yield
        return

    def from_torchlib(opset_version: int | None = None) -> Any:
        if opset_version not in _registries:
            _registries[opset_version] = build() if opset_version is None else build(opset_version)
        return _registries[opset_version]

    setattr(ONNXRegistry, "from_torchlib", staticmethod(from_torchlib))  # noqa: B010 - a method, for a while
    try:
        yield
    finally:
        setattr(ONNXRegistry, "from_torchlib", before)  # noqa: B010


def _bare(model: Any) -> Any:
    """The model without the exporter's source locations of nodes, which are a fifth of a small file."""
    for item in (model.graph, *model.graph.node, *model.graph.input, *model.graph.output, *model.graph.value_info,
                 *model.graph.initializer, *model.functions):
        del item.metadata_props[:]
        item.doc_string = ""
    return model


def _quantise(model: Any, path: str, sizes: dict[str, int]) -> dict[str, float]:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxscript import optimizer

    # Weights that several layers share are transposed at every use: fold them, or they would not be quantised.
    model = optimizer.optimize(model, input_size_limit=sys.maxsize, output_size_limit=sys.maxsize)
    macs = _macs(model, sizes)
    del model.graph.value_info[:]  # the quantiser turns the weights of a Gemm around, and old shapes would contradict
    matrices = {tensor.name for tensor in model.graph.initializer if len(tensor.dims) == 2}
    stacked = [node.name for node in model.graph.node if node.op_type == "MatMul" and node.input[1] not in matrices]
    # Weights of 7 bits: with 8, sums overflow on x86 processors without VNNI. The quantiser takes weights of groups
    # as well, which ONNX Runtime then does not run. Tables of embeddings are most of a small model's file.
    quantize_dynamic(model, path, op_types_to_quantize=["MatMul", "Gather"], per_channel=True,
                     weight_type=QuantType.QInt8, reduce_range=True, nodes_to_exclude=stacked)
    left = [node.name.removesuffix("_MatMul") for node in onnx.load(path).graph.node
            if node.op_type in PRODUCTS]
    unknown = set(left) - set(macs)
    if unknown:
        raise RuntimeError(f"quantisation added an unknown matrix product: {sorted(unknown)[0]}")
    total = sum(macs.values())
    return {"not_quantised": sum(macs[name] for name in left) / total if total else 0.0}


def _macs(model: Any, sizes: dict[str, int]) -> dict[str, float]:
    """Name of every matrix product -> its multiply-adds, where dynamic axes have these sizes."""
    import math

    import onnx

    closed = onnx.ModelProto()
    closed.CopyFrom(model)
    if sizes:
        del closed.graph.value_info[:]
        for size in (size for slot in closed.graph.input for size in slot.type.tensor_type.shape.dim):
            if size.dim_param in sizes or (size.dim_param and "past" in sizes):  # a mask is of past and new tokens
                size.dim_value = sizes.get(size.dim_param, sizes.get("past", 0) + sizes.get("length", 0))
    graph = onnx.shape_inference.infer_shapes(closed, data_prop=True).graph
    shapes = {value.name: [size.dim_value for size in value.type.tensor_type.shape.dim]
              for value in (*graph.value_info, *graph.input, *graph.output)}
    shapes.update({value.name: list(value.dims) for value in graph.initializer})
    return {node.name: float(math.prod(shapes[node.output[0]]) * _summed(node, shapes))
            for node in graph.node if node.op_type in PRODUCTS}


def _summed(node: Any, shapes: dict[str, list[int]]) -> int:
    """How many products each output of a node is the sum of."""
    import math

    given = [shapes[name] for name in node.input if name]
    if node.op_type == "Conv":  # weights: outputs, inputs of a group, kernel
        return math.prod(given[1][1:])
    if node.op_type == "Einsum":
        attribute = next(attribute for attribute in node.attribute if attribute.name == "equation")
        equation = attribute.s.decode().replace(" ", "")
        inputs, output = equation.split("->")
        letters = dict(zip(inputs.replace(",", ""), (size for shape in given for size in shape)))
        return math.prod(size for letter, size in letters.items() if letter not in output)
    return given[0][-2 if any(attribute.name == "transA" and attribute.i for attribute in node.attribute) else -1]


def _reason(error: BaseException | None) -> str:
    """One sentence: the unsupported operator if the error names one, else the error message."""
    import re

    message = " ".join(str(error).split())
    while error is not None:
        names = re.findall(r"aten(?:\.|::)(\w+)", str(error))
        if names:
            return f"the operator {names[0]} cannot be exported to ONNX; remove blocks that use it from the space"
        error = error.__cause__
    return f"the module cannot be exported ({message[:200]})"
