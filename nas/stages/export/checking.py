"""Compares an export with the plain model on data of its run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from nas.stages.export.job import ExportJob, Inputs, Run
from search_spaces import InputError
from search_spaces import registry as kinds
from search_spaces.errors import Option
from supernet.batch import IGNORE, Batch
from supernet.train.losses import label_loss, labelled, soft_loss, soft_targets

MOST_LOSS = 0.05
"""What int8 may add to the loss, unless the user allows more: nats, or a share of the variance of numbers."""
SHAPES = ((1, 1.0), (4, 0.5), (2, 0.25), (3, 1.0), (2, 0.0))
"""Test shapes of dynamic sizes: rows, and the share of the length; a length of 0 is one token.

The first is also tested with the whole context.
"""
ROWS, EXAMPLES = 4, 64
"""Rows of a batch, and examples for the loss. In full precision two batches are enough: a fault affects all outputs."""
LONGEST = 1024
"""Tokens of the longest compared sequence; logits of a large vocabulary over thousands of tokens fill the memory."""
SEED = 0


@dataclass(frozen=True)
class Case:
    """Positional inputs, and the labels of their logits; without labels, the plain model is the reference."""

    inputs: Inputs
    labels: Tensor | None


@dataclass(frozen=True)
class Sample:
    """Test cases and their description."""

    cases: tuple[Case, ...]
    what: str


def sample(job: ExportJob, dynamic: bool, for_loss: bool) -> Sample:
    """Inputs to compare on: validation examples of its run, or random tokens if the run does not exist.

    Args:
        dynamic: several sizes, or rows of the job's length, padded.
        for_loss: enough of them to measure a loss.
    """
    batches, what, labelled = _batches(job, EXAMPLES if for_loss else 2 * ROWS)
    if not dynamic:
        rows = (_row(batch, i) for batch in batches for i in range(batch.tokens.shape[0]))
        chosen = [_padded(row, job.length) for row in rows]
    elif for_loss:
        chosen = batches
    else:
        chosen = [_cut(batches[i % len(batches)], *shape) for i, shape in enumerate(SHAPES)]
        chosen.append(_padded(chosen[0], _longest(job)))
    if dynamic:
        least = job.least_length
        chosen = [example if example.tokens.shape[1] >= least else _padded(example, least) for example in chosen]
    return Sample(tuple(Case(_inputs(batch, job, not for_loss), batch.labels if labelled else None)
                        for batch in chosen), what)


def largest_difference(run: Run, job: ExportJob, cases: Sequence[Case]) -> float:
    """The largest difference of any output, over the plain model's largest; infinite for NaN or a wrong shape."""
    worst = 0.0
    for case in cases:
        plain, logits = _plain(job, case), run(case.inputs)
        if logits.shape != plain.shape or not bool(logits.isfinite().all()):
            return math.inf
        scale = float(plain.abs().max()) or 1.0
        worst = max(worst, float((logits - plain).abs().max()) / scale)
    return worst


def losses(run: Run, job: ExportJob, cases: Sequence[Case]) -> tuple[float, float]:
    """The mean loss of the plain model and of the exported one; in nats for class logits.

    Without labels, the plain model's distribution is the target, so the difference is the KL divergence.

    Raises:
        InputError: the output of its head has no loss.
    """
    if not kinds.get(job.arch.head.kind).logits:
        raise InputError(str(job.subnet.path), "its head returns features, which have no loss to check int8 with; "
                                                    f"export it without {Option('int8')}")
    sums, n = torch.zeros(2, dtype=torch.float64), 0
    for case in cases:
        plain = _plain(job, case)
        both = [logits.double() for logits in (plain, run(case.inputs))]
        if case.labels is None:
            flat = [logits.flatten(0, -2) for logits in both]
            truth = soft_targets(flat[0].clone(), torch.empty(0), trust=1.0)
            sums += torch.stack([soft_loss(logits, truth) for logits in flat])
        else:
            pairs = [labelled(logits, case.labels) for logits in both]
            sums, truth = sums + torch.stack([label_loss(*pair) for pair in pairs]), pairs[0][1]
        n += len(truth)
    before, after = (sums / max(n, 1)).tolist()
    return before, after


def _plain(job: ExportJob, case: Case) -> Tensor:
    with torch.no_grad():
        logits: Tensor = job.module(*case.inputs)
    return logits


def _batches(job: ExportJob, n: int) -> tuple[list[Batch], str, bool]:
    """Batches, what they are, and whether they have labels."""
    subnet = job.subnet
    try:
        subnet.run()
    except InputError:
        return list(_drawn(job, n)), f"random tokens (seed {SEED}), because its run does not exist", False
    batches = list(subnet.prepared().valid.in_order(ROWS, n))
    return batches, f"{sum(len(batch.tokens) for batch in batches)} validation examples", True


def _drawn(job: ExportJob, n: int) -> Iterator[Batch]:
    arch, generator = job.arch, torch.Generator().manual_seed(SEED)
    for _ in range(n // ROWS):
        most = _longest(job)
        tokens, target = (torch.randint(arch.vocab_size, (ROWS, most), generator=generator) for _ in range(2))
        lengths = torch.randint(1, most + 1, (ROWS, 1), generator=generator)
        yield Batch(tokens, torch.full_like(tokens, IGNORE), target if arch.family == "seq2seq" else None,
                    torch.arange(most)[None] < lengths)


def _longest(job: ExportJob) -> int:
    return min(job.arch.context, LONGEST)


def _inputs(batch: Batch, job: ExportJob, varied: bool) -> Inputs:
    """The inputs of the exported model for a batch.

    Args:
        varied: vary token types, which the data lack, and pad a part of the first row in any case.
    """
    mask = torch.ones_like(batch.tokens) if batch.mask is None else batch.mask.long()
    if varied:
        mask[0, math.ceil(mask.shape[1] / 2):] = 0
    given = {"input_ids": batch.tokens, "attention_mask": mask, "decoder_input_ids": batch.target}
    if job.arch.n_types:
        types = torch.arange(batch.tokens.shape[1]) % job.arch.n_types if varied else torch.zeros(1).long()
        given["token_type_ids"] = types.expand_as(batch.tokens)
    return tuple(given[name].contiguous() for name in job.names)  # type: ignore[union-attr]


def _cut(batch: Batch, rows: int, share: float) -> Batch:
    """The beginning of the first rows."""
    def cut(tensor: Tensor) -> Tensor:
        n = tensor.shape[1] if tensor.dim() > 1 else 0
        return tensor[:rows, :max(math.ceil(share * n), 1)] if n else tensor[:rows]

    return batch.map(cut)


def _row(batch: Batch, i: int) -> Batch:
    return batch.map(lambda tensor: tensor[i : i + 1])


def _padded(row: Batch, length: int) -> Batch:
    """Sequences of a length: truncated, or padded with masked tokens."""
    mask = torch.ones_like(row.tokens, dtype=torch.bool) if row.mask is None else row.mask
    row = Batch(row.tokens, row.labels, row.target, mask)

    def fill(tensor: Tensor) -> Tensor:
        value = IGNORE if tensor is row.labels else 0
        return F.pad(tensor[:, :length], (0, max(length - tensor.shape[1], 0)), value=value) if tensor.dim() > 1 \
            else tensor

    return row.map(fill)
