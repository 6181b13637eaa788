"""ONNX with dynamic batch size and length, for ONNX Runtime and other engines."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hardware_profiles.runtimes import onnx_runtime
from nas.stages.export.decoding import Call, start_of
from nas.stages.export.folder import program_usage, write_program_folder
from nas.stages.export.job import ExportJob, Inputs, Run, blaming
from nas.stages.export.programs import MODEL, Program, programs

HELP = "ONNX, for ONNX Runtime and other engines"
DYNAMIC, INT8 = True, True
LEAST_PAST = 0
SUFFIX = ".onnx"
IMPORTS = "import onnxruntime"
LOAD = '''
def load(name):
    session = onnxruntime.InferenceSession(str(HERE / f"{name}.onnx"), providers=["CPUExecutionProvider"])
    names = [slot.name for slot in session.get_inputs()]
    return lambda *given: session.run(None, dict(zip(names, given)))
'''
missing, usage = onnx_runtime.missing, program_usage


def write(job: ExportJob, folder: Path) -> dict[str, Any]:
    """A file for each program, including its weights."""
    facts, wanted = [], programs(job, fixed=False)
    with blaming(job, "ONNX", _alone):
        for program in wanted:
            facts.append(_write(program, job, folder / f"{program.name}{SUFFIX}"))
    write_program_folder(job, folder, False, start_of(job, LEAST_PAST),
                         "onnxruntime, numpy and tokenizers", IMPORTS, LOAD)
    return {**facts[0], "opset": _opset(folder / f"{wanted[0].name}{SUFFIX}")}


def load(job: ExportJob, folder: Path) -> Run:
    """Runs the model in ONNX Runtime."""
    run = call(folder, MODEL)
    return lambda inputs: run(inputs)[0]


def call(folder: Path, name: str) -> Call:
    """Runs a program in ONNX Runtime."""
    run = onnx_runtime.call(str(folder / f"{name}{SUFFIX}"), {"threads": torch.get_num_threads()})

    def outputs(inputs: Inputs) -> list[Tensor]:
        return [torch.from_numpy(array) for array in run([array.numpy() for array in inputs])]

    return outputs


def _write(program: Program, job: ExportJob, path: Path) -> dict[str, Any]:
    length = job.arch.context
    sizes = {"batch": 1, "length": length, "target_length": length}
    if program.name != MODEL:
        sizes = {"batch": 1, "length": 1, "past": length - 1, "source": length}
    return onnx_runtime.write(
        program.module, program.example, str(path), "int8" if job.int8 else "fp32", sizes=sizes,
        input_names=list(program.inputs), output_names=list(program.outputs), dynamic_shapes=program.axes)


def _opset(path: Path) -> int:
    import onnx

    domains = onnx.load(path, load_external_data=False).opset_import
    return next(int(domain.version) for domain in domains if domain.domain in ("", "ai.onnx"))


def _alone(module: nn.Module, inputs: Sequence[Tensor]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        onnx_runtime.compile(module, inputs, f"{folder}/unit{SUFFIX}", {"precision": "fp32"})
