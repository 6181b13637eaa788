"""Units of decoding, compiled and run by the runtimes that exports are for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hardware_profiles import runtimes
from hardware_profiles.profile import Conditions, load_device
from nas.core.timing.compiling import Compiler
from nas.core.timing.workloads import Workload
from nas.stages.profile.choice import units_of
from search_spaces import load_space

AT = Conditions(batch=1, length=12, past=6)
UNITS = {"cpu-onnxruntime": (("lm-mixed", "delight"), ("lm-mixed", "lsra"), ("seq2seq-small", "cross_attention")),
         "cpu-xnnpack": (("lm-mixed", "delight"), ("seq2seq-small", "cross_attention"))}
"""States of convolutions, of DeLighT, and of a source; few, because compilers are slow."""


@pytest.mark.parametrize(("name", "space", "kind"), [(name, *unit) for name, units in UNITS.items() for unit in units])
def test_a_unit_of_an_exported_decoder_is_compiled_and_runs(name: str, space: str, kind: str, tmp_path: Path) -> None:
    device = load_device(name)
    runtime = runtimes.get(device.runtime)
    if runtime.missing():
        pytest.skip(runtime.missing())
    unit = next(unit for unit in units_of(load_space(space), "decode") if unit.block.kind == kind)
    workload = Workload("decode", unit)
    compiled = Compiler(device, AT, tmp_path).compile(workload)
    module, inputs = workload.build(AT, "open" if getattr(runtime, "OPEN_SIZES", False) else "fixed")
    outputs = runtime.call(str(tmp_path / compiled.model.file), device.runtime_options())(
        [tensor.numpy() for tensor in inputs])
    with torch.no_grad():
        expected = module(*inputs)
    assert len(outputs) == len(expected) and len(compiled.model.inputs) == len(inputs)
    assert all(torch.allclose(torch.from_numpy(array.copy()), tensor, atol=1e-4)
               for array, tensor in zip(outputs, expected))
