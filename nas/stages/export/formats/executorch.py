"""ExecuTorch programs delegated to XNNPACK, for phones and small computers."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hardware_profiles.runtimes import xnnpack
from nas.stages.export.decoding import Call, start_of
from nas.stages.export.folder import program_usage, write_program_folder
from nas.stages.export.job import ExportJob, Inputs, Run, blaming
from nas.stages.export.programs import MODEL, programs

HELP = "ExecuTorch programs for phones, for one sequence of fixed length"
DYNAMIC, INT8 = False, True
LEAST_PAST = None
SUFFIX = ".pte"
IMPORTS = "import torch\nfrom executorch.runtime import Runtime"
LOAD = '''
def load(name):
    method = Runtime.get().load_program(HERE / f"{name}.pte").load_method("forward")
    return lambda *given: [out.numpy().copy() for out in method.execute([torch.from_numpy(array) for array in given])]
'''
missing, usage = xnnpack.missing, program_usage


def write(job: ExportJob, folder: Path) -> dict[str, Any]:
    """A file for each program, for one sequence of a fixed length; returns the share that XNNPACK did not take."""
    options = {"precision": "int8" if job.int8 else "fp32"}
    facts = []
    with blaming(job, "ExecuTorch", _alone):
        for program in programs(job, fixed=True):
            facts.append(xnnpack.compile(program.module, program.example, str(folder / f"{program.name}{SUFFIX}"),
                                         options))
    write_program_folder(job, folder, True, start_of(job, LEAST_PAST),
                         "executorch, torch, numpy and tokenizers", IMPORTS, LOAD)
    return facts[0]


def load(job: ExportJob, folder: Path) -> Run:
    """Runs the model in ExecuTorch's runtime."""
    run = call(folder, MODEL)
    return lambda inputs: run(inputs)[0]


def call(folder: Path, name: str) -> Call:
    """Runs a program in ExecuTorch's runtime."""
    run = xnnpack.call(str(folder / f"{name}{SUFFIX}"), {"threads": 1})

    def outputs(inputs: Inputs) -> list[Tensor]:
        return [torch.from_numpy(array.copy()) for array in run([array.numpy() for array in inputs])]

    return outputs


def _alone(module: nn.Module, inputs: Sequence[Tensor]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        xnnpack.compile(module, inputs, f"{folder}/unit{SUFFIX}", {"precision": "fp32"})
