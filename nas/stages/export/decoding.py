"""Reads sequences with an exported decoder piece by piece, as in generation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from nas.stages.export.job import ExportJob, Inputs, Run
from nas.stages.export.programs import DECODER, ENCODER, decoder_of

Call = Callable[[Inputs], list[Tensor]]


def decoder_run(job: ExportJob, call: Callable[[str], Call], fixed: bool, start: int) -> Run | None:
    """A function from the model's inputs to logits that uses the exported decoder; None if there is none.

    Args:
        call: the program of a name, as a function of tensors.
        start: how many masked tokens the cache holds before the first one.
    """
    step = decoder_of(job, fixed)
    if step is None:
        return None
    decode, encode = call(DECODER), call(ENCODER) if step.source else None

    def run(inputs: Inputs) -> Tensor:
        given = dict(zip(job.names, inputs))
        tokens = given.get("decoder_input_ids", given["input_ids"])
        source: list[Tensor] = []
        if encode is not None:
            source = encode(tuple(tensor for name, tensor in given.items() if name != "decoder_input_ids"))
        masks = [given["attention_mask"]] if job.arch.family == "seq2seq" else []
        rows, pieces, done = tokens.shape[0], list[Tensor](), 0
        past = [torch.zeros(slot.shape(rows, start, 0)) for slot in step.past]
        mask = torch.zeros(rows, start, dtype=torch.long)
        for n in _pieces(tokens.shape[1], fixed):
            mask = torch.cat([mask, torch.ones(rows, n, dtype=torch.long)], dim=1)
            mask = mask if step.window is None else mask[:, -step.window - 1 :].contiguous()
            position = torch.arange(done, done + n).expand(rows, n).contiguous()
            logits, *past = decode((tokens[:, done : done + n].contiguous(), mask, position, *past, *masks, *source))
            pieces.append(logits)
            done += n
        return torch.cat(pieces, dim=1)

    return run


def _pieces(n: int, fixed: bool) -> Iterator[int]:
    """Lengths of the pieces to read: for a decoder that takes any length, a half, two single tokens and the rest."""
    first = 1 if fixed else max(n // 2, 1)
    yield first
    for done in range(first, n):
        if not fixed and done == first + 2:
            yield n - done
            return
        yield 1


def start_of(job: ExportJob, least: int | None) -> int:
    """How many masked tokens a cache begins with: all of one whose size is fixed (None); else `least`, or as many as
    the states that keep a few tokens only hold."""
    step = decoder_of(job, least is None)
    if step is None:
        return 0
    return step.window or 0 if least is None else max(least, *(slot.least_past for slot in step.past), 0)


def decoder_config(job: ExportJob, fixed: bool, start: int) -> dict[str, Any]:
    """How to generate: the cache before the first token, the most tokens a call reads, and the most its mask covers."""
    step = decoder_of(job, fixed)
    if step is None:
        return {}
    reads, sees = (1, step.window + 1) if step.window else (job.arch.context, start + job.arch.context)
    return {"start": start, "reads": reads, "sees": sees,
            "past": [list(slot.shape(1, start, 0)) for slot in step.past]}
