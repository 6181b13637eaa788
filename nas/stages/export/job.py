"""The input of an export format; `formats/README.md` has the contract of a format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from hardware_profiles.profile import Conditions
from hardware_profiles.quiet import quiet
from nas.core.subnet import Subnet
from nas.core.timing.workloads import Workload
from search_spaces import Architecture, InputError
from search_spaces.units import plan
from supernet import Transformer
from supernet.compression.quantised import dequantised
from supernet.stepping import MOST_ROWS

Inputs = tuple[Tensor, ...]
Run = Callable[[Inputs], Tensor]


def input_names(arch: Architecture) -> tuple[str, ...]:
    """The inputs of an exported model, in order. Only those that affect its output: an lm needs no padding mask."""
    wanted = {"input_ids": True, "attention_mask": arch.family != "lm", "token_type_ids": bool(arch.n_types),
              "decoder_input_ids": arch.family == "seq2seq"}
    return tuple(name for name, there in wanted.items() if there)


class Positional(nn.Module):
    """A plain model with the call signature of an export: positional int64 tensors, including the mask."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model, self.names = model, input_names(model.arch)

    def forward(self, *tensors: Tensor) -> Tensor:
        """The head's output."""
        given = dict(zip(self.names, tensors))
        mask = given.get("attention_mask")
        logits: Tensor = self.model(given["input_ids"], given.get("decoder_input_ids"),
                                    mask=None if mask is None else mask != 0, types=given.get("token_type_ids"))
        return logits


@dataclass(frozen=True)
class ExportJob:
    """The model to export.

    Args:
        length: tokens of a sequence, of source and target each, where a format fixes them.
        decoder: whether to write the decoder of a model that has one.
        whole: whether to write the program that reads whole sequences.
        padded: the same model with layers padded to equal sizes; see `padding.py`.
    """

    subnet: Subnet
    length: int
    int8: bool
    decoder: bool = True
    whole: bool = True
    padded: Transformer | None = None

    @cached_property
    def model(self) -> Transformer:
        """The plain model in single precision; a compressed one with its dequantised values."""
        if self.padded is not None:
            return self.padded
        return dequantised(self.subnet.model()).float().eval().requires_grad_(False)

    @cached_property
    def module(self) -> Positional:
        """The model as it is exported."""
        return Positional(self.model).eval()

    @property
    def arch(self) -> Architecture:
        """Its architecture."""
        return self.subnet.arch if self.padded is None else self.padded.arch

    @property
    def decodes(self) -> bool:
        """Whether a decoder with its cache belongs to the export."""
        return self.decoder and self.arch.family != "encoder"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the inputs, in order."""
        return input_names(self.arch)

    @cached_property
    def least_length(self) -> int:
        """Minimum sequence length of a dynamic export; shorter sequences must be padded.

        PyTorch's exporters treat a length of 1 as a special case, so at least two tokens must remain after pooling.
        """
        fraction = min(step.unit.length_fraction for step in plan(self.arch))
        return 1 if fraction == 1 else min(int(1 / fraction) + 1, self.arch.context)

    def example(self, rows: int, length: int | None = None) -> Inputs:
        """Inputs to trace it with: all tokens have id 0, and none is masked. Without a length, short ones."""
        length = length or min(max(3, self.least_length), self.arch.context)
        return tuple(torch.full((rows, length), int(name == "attention_mask")) for name in self.names)

    def open_axes(self) -> dict[str, Any]:
        """The dynamic sizes for torch's exporters; source and target have separate lengths."""
        batch = Dim("batch", min=1, max=MOST_ROWS)
        source, target = (Dim(name, min=self.least_length, max=self.arch.context)
                          for name in ("length", "target_length"))
        return {"tensors": tuple({0: batch, 1: target if name == "decoder_input_ids" else source}
                                 for name in self.names)}


@contextmanager
def blaming(job: ExportJob, what: str, attempt: Callable[[nn.Module, Sequence[Tensor]], object]) -> Iterator[None]:
    """Turn an export error into one that names the unsupported block, if that block alone fails, too.

    Args:
        what: the format, for the error.
        attempt: exports a unit alone; raises where that fails.
    """
    job.module.eval()  # an unreadable folder or a full disk is not a fault of the format
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        at = Conditions(batch=1, length=min(job.arch.context, 8), past=1)
        for unit in dict.fromkeys(step.unit for step in plan(job.arch)):
            try:
                with quiet():
                    attempt(*Workload("prefill", unit).build(at))
            except Exception as alone:
                raise InputError(str(job.subnet.path), f"{what} cannot export {unit}: {_first(alone)}") from error
        raise InputError(str(job.subnet.path), f"{what} cannot export the whole model: {_first(error)}") from error


def _first(error: Exception) -> str:
    message = " ".join(str(error).split()) or type(error).__name__
    return message if isinstance(error, InputError) else message[:200]
