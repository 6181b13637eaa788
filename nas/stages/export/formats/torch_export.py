"""PyTorch's exported programs with dynamic batch size and length, for `torch.export.load` and tools built on it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hardware_profiles.quiet import quiet
from nas.stages.export.decoding import Call
from nas.stages.export.folder import program_usage, write_program_folder
from nas.stages.export.job import ExportJob, Inputs, Run, blaming
from nas.stages.export.programs import MODEL, programs

HELP = "PyTorch's exported programs"
DYNAMIC, INT8 = True, False
LEAST_PAST = 3
"""The exporter assumes that every dynamic size is at least 2, so a mask over past and new tokens has at least 4."""
SUFFIX = ".pt2"
IMPORTS = "import torch"
LOAD = '''
def load(name):
    run = torch.export.load(HERE / f"{name}.pt2").module()
    arrays = lambda outs: [out.detach().numpy() for out in (outs if isinstance(outs, (tuple, list)) else [outs])]
    return lambda *given: arrays(run(*map(torch.from_numpy, given)))
'''
usage = program_usage


def missing() -> str | None:
    """It comes with PyTorch."""
    return None


def write(job: ExportJob, folder: Path) -> dict[str, Any]:
    """A file for each program, including its weights."""
    for program in programs(job, fixed=False):
        with blaming(job, "torch.export", _alone), quiet():
            # Sizes that are sums, and lengths after pooling, are beyond what the exporter can prove: the program checks
            # them when it runs.
            deferred = program.name != MODEL or job.least_length > 1
            checks: Any = {"prefer_deferred_runtime_asserts_over_guards": True} if deferred else {}
            exported = torch.export.export(program.module, program.example, dynamic_shapes=program.axes, **checks)
        saved = io.BytesIO()
        torch.export.save(exported, saved)
        # by Python, whose errors say what is wrong with the disk
        (folder / f"{program.name}{SUFFIX}").write_bytes(saved.getbuffer())
    write_program_folder(job, folder, False, LEAST_PAST, "torch, numpy and tokenizers", IMPORTS, LOAD)
    return {"torch": torch.__version__}


def load(job: ExportJob, folder: Path) -> Run:
    """Runs the model in PyTorch. Load only files you trust: a file can run code."""
    run = call(folder, MODEL)
    return lambda inputs: run(inputs)[0]


def call(folder: Path, name: str) -> Call:
    """Runs a program in PyTorch."""
    module = torch.export.load(folder / f"{name}{SUFFIX}").module()

    def outputs(inputs: Inputs) -> list[Tensor]:
        with torch.no_grad():
            outputs = module(*inputs)
        return [outputs] if isinstance(outputs, Tensor) else list(outputs)

    return outputs


def _alone(module: nn.Module, inputs: Sequence[Tensor]) -> None:
    torch.export.export(module, tuple(inputs))
