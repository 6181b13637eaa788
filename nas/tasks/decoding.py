"""Greedy decoding of targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch
from tokenizers import Tokenizer
from torch import Tensor

from nas.tasks.tokenizer import BOS, EOS, PAD
from supernet.batch import IGNORE, Batch


class Ends(NamedTuple):
    """The tokens that a target begins and ends with: our own by default."""

    begin: int = BOS
    end: int = EOS


def greedy(logits: Callable[[Batch], Tensor], batch: Batch, context: int, ends: Ends = Ends()) -> Tensor:  # noqa: B008
    """(batch, m) the most probable token each time, `<pad>` after the end.

    A row ends with the end token or where it is too long for its source, whatever the other rows do.
    """
    tokens, n = batch.tokens, batch.tokens.shape[0]
    lengths = batch.mask.sum(dim=1) if batch.mask is not None else torch.full((n,), tokens.shape[1])
    longest = most_written(lengths).clamp(max=context).to(tokens.device)
    written = torch.full((n, 1), ends.begin, device=tokens.device)
    ended = torch.zeros(n, dtype=torch.bool, device=tokens.device)
    while not ended.all():
        request = Batch(tokens=tokens, labels=torch.full_like(written, IGNORE), target=written, mask=batch.mask)
        best = logits(request)[:, -1].argmax(dim=-1).to(tokens.device)
        best = best.masked_fill(ended, PAD)
        written = torch.cat([written, best[:, None]], dim=1)
        ended = ended | (best == ends.end) | (written.shape[1] - 1 >= longest)
    return written[:, 1:]


Length = TypeVar("Length", int, Tensor)


def most_written(source: Length) -> Length:
    """Maximum number of generated tokens for a source of that length."""
    return 2 * source + 10


def texts_of(ids: Tensor, tokenizer: Tokenizer, ends: Ends = Ends()) -> list[str]:  # noqa: B008
    """The texts of rows of ids, each up to its end."""
    rows = [[i for i in (row[:row.index(ends.end)] if ends.end in row else row) if i >= 0] for row in ids.tolist()]
    return [text.strip() for text in tokenizer.decode_batch(rows, skip_special_tokens=True)]
