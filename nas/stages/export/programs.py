"""The programs that a format without our Python code exports: one that reads whole sequences; for models that generate,
also a decoder with its cache; for seq2seq, also an encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from nas.stages.export.shipment import Inputs, Shipment
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


def programs(shipment: Shipment, fixed: bool) -> list[Program]:
    """The programs of a model.

    Args:
        fixed: for one sequence of the shipment's length instead of any.
    """
    axes = None if fixed else shipment.open_axes()
    example = shipment.example(1, shipment.length) if fixed else shipment.example(2)
    whole = Program(MODEL, shipment.module, shipment.names, ("logits",), example, axes)
    programs = [whole] if shipment.whole else []
    step = decoder_of(shipment, fixed)
    if step is None:
        return programs
    if step.source:
        n = len([name for name in shipment.names if name != "decoder_input_ids"])
        names = tuple(name for name in step.input_names if name.startswith("source."))
        programs.append(Program(ENCODER, SourceStep(shipment.model).eval(), shipment.names[:n], names, example[:n],
                             None if axes is None else {"tensors": axes["tensors"][:n]}))
    traced = step.traced() if step.window is None else step.example(1, 1, step.window, shipment.length)
    programs.append(Program(DECODER, step, tuple(step.input_names), tuple(step.output_names), traced,
                         None if fixed else step.open_axes()))
    return programs


def decoder_of(shipment: Shipment, fixed: bool) -> DecoderStep | None:
    """The decoder with its cache; None if the model does not generate, or the user does not want it.

    Raises:
        InputError: a block cannot decode token by token; it is named.
    """
    if not shipment.decodes:
        return None
    return DecoderStep(shipment.model, max(shipment.length - 1, 1) if fixed else None).eval()


def check_decoder(shipment: Shipment) -> None:
    """Raises InputError if the model has a block that cannot decode token by token, and a decoder is wanted."""
    if not shipment.decodes:
        return
    try:
        state_slots(shipment.arch)
    except InputError as error:
        why = "; ".join(fault.reason for fault in error.faults)
        raise InputError(str(shipment.subnet.path), f"{why}; omit the decoder with {Option('no_decoder')}") from None
