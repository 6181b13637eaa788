"""The programs that a format without our Python code exports: one that reads whole sequences; for models that generate,
also a decoder with its cache; for seq2seq, also an encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from nas.stages.export.job import ExportJob, Inputs
from search_spaces import InputError
from search_spaces.errors import Option
from supernet.stepping import DecoderStep, SourceStep, state_slots

MODEL, ENCODER, DECODER = "model", "encoder", "decode"
"""Names of programs; a format adds its suffix."""


@dataclass(frozen=True)
class Program:
    """A module to export.

    Args:
        example: inputs to trace it with.
        axes: the dynamic sizes, as torch's exporters take them; None if all are fixed.
    """

    name: str
    module: nn.Module
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    example: Inputs
    axes: dict[str, Any] | None


def programs(job: ExportJob, fixed: bool) -> list[Program]:
    """The programs of a model.

    Args:
        fixed: for one sequence of the job's length instead of any.
    """
    axes = None if fixed else job.open_axes()
    example = job.example(1, job.length) if fixed else job.example(2)
    whole = Program(MODEL, job.module, job.names, ("logits",), example, axes)
    programs = [whole] if job.whole else []
    step = decoder_of(job, fixed)
    if step is None:
        return programs
    if step.source:
        n = len([name for name in job.names if name != "decoder_input_ids"])
        names = tuple(name for name in step.input_names if name.startswith("source."))
        programs.append(Program(ENCODER, SourceStep(job.model).eval(), job.names[:n], names, example[:n],
                             None if axes is None else {"tensors": axes["tensors"][:n]}))
    traced = step.traced() if step.window is None else step.example(1, 1, step.window, job.length)
    programs.append(Program(DECODER, step, tuple(step.input_names), tuple(step.output_names), traced,
                         None if fixed else step.open_axes()))
    return programs


def decoder_of(job: ExportJob, fixed: bool) -> DecoderStep | None:
    """The decoder with its cache; None if the model does not generate, or the user does not want it.

    Raises:
        InputError: a block cannot decode token by token; it is named.
    """
    if not job.decodes:
        return None
    return DecoderStep(job.model, max(job.length - 1, 1) if fixed else None).eval()


def check_decoder(job: ExportJob) -> None:
    """Raises InputError if the model has a block that cannot decode token by token, and a decoder is wanted."""
    if not job.decodes:
        return
    try:
        state_slots(job.arch)
    except InputError as error:
        why = "; ".join(fault.reason for fault in error.faults)
        raise InputError(str(job.subnet.path), f"{why}; omit the decoder with {Option('no_decoder')}") from None
