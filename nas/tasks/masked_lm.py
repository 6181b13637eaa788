"""Masked language modelling: predict the masked tokens of a text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from nas.tasks.answering import Answer, TrainedModel
from nas.tasks.base import Prepared, Watch, unwatched
from nas.tasks.cache import Arrays
from nas.tasks.lm import LanguageModelling
from nas.tasks.options import SPLITS
from nas.tasks.scoring import n_right, summed_loss
from nas.tasks.sources import Rows
from nas.tasks.splits import PackedSplit, in_batches
from nas.tasks.tokenizer import BOS, EOS, UNK, BroughtTokenizer
from search_spaces import registry as kinds
from search_spaces.architecture import Architecture
from search_spaces.errors import InputError
from search_spaces.space.search_space import SearchSpace
from supernet.batch import IGNORE, Batch, Split

PREDICTED, AS_MASK, AS_RANDOM = 0.15, 0.8, 0.1
"""Share of tokens that are predicted, and of these, the shares that the model sees as mask and as a random token; it
sees the others as they are (Devlin et al., 2019)."""


class Marks(NamedTuple):
    """The tokens around a window, the one in the place of masked ones, and the size of the vocabulary."""

    begin: int
    end: int
    mask: int
    vocab_size: int


class MaskedLanguageModelling(LanguageModelling):
    """Rows are documents, as of `lm`. The mask of our own tokenizers is `<unk>`, which training texts do not have."""

    name = "masked-lm"
    help = "predict the masked tokens of a text"
    family, head = "encoder", "masked_lm"
    title, first_space, command, sample = "Masked language model", "masked-small", "predict", "a <unk> text"
    embedded_vocab = 4096
    metrics = {"loss": False, "accuracy": True}
    from_loss = {"loss": float}

    def check(self, space: SearchSpace) -> None:
        """Raises InputError unless the heads of the space return token logits."""
        super().check(space)
        other = next((kind for kind in space.head.dims if not kinds.get(kind).over_words), None)
        if other is not None:
            raise InputError("", f"task {self.name} needs a space with the head masked_lm; {space.name} has {other}")

    def encode(self, rows: Rows, tokenizer: Tokenizer, labels: tuple[str, ...], context: int,
               notes: list[str]) -> Arrays:
        """The streams of `lm`, and the marks."""
        arrays = super().encode(rows, tokenizer, labels, context, notes)
        return {**arrays, **_marked(Marks(BOS, EOS, UNK, tokenizer.get_vocab_size()))}

    def encode_brought(self, rows: Rows, brought: BroughtTokenizer, labels: tuple[str, ...], context: int,
                       notes: list[str]) -> Arrays:
        """The same with the tokens that the pretrained model knows."""
        tokenizer, end = brought.tokenizer, brought.special("eos", "ends a text")
        marks = Marks(brought.special("bos", "begins a text"), end, brought.special("mask", "masks others"),
                      max(tokenizer.get_vocab().values()) + 1)
        streams = {f"{split}.stream": np.array([end, *(
            i for (text,) in rows[split] for i in (*tokenizer.encode(text, add_special_tokens=False).ids, end))],
            dtype=np.int32) for split in SPLITS}
        return {**streams, **_marked(marks)}

    def open(self, arrays: Arrays, context: int) -> Split:
        """The stream in windows with room for the marks."""
        return MaskedSplit(PackedSplit(arrays["stream"], max(context - 2, 1)), Marks(*map(int, arrays["marks"])))

    @torch.no_grad()
    def evaluate(self, logits: Callable[[Batch], Tensor], prepared: Prepared, split: str, *, size: int,
                 limit: int | None, full: bool, watch: Watch = unwatched) -> dict[str, float]:
        """Loss in nats and accuracy of masked tokens; not comparable between vocabularies."""
        total, right, n = 0.0, 0, 0
        for batch in prepared.split(split).in_order(size, limit):
            outputs = logits(batch)
            total += (loss := summed_loss(outputs, batch.labels))
            watch(loss)
            right += n_right(outputs, batch.labels)
            n += batch.n_labels
        return {"loss": total / n, "accuracy": right / n}

    def snippet(self, arch: Architecture) -> Iterator[str]:
        """Fills a gap."""
        yield f'ids = [{BOS}, *tokenizer.encode("{self.sample}").ids, {EOS}]    # {BOS} begins a text, {EOS} ends it'
        yield "found = model(torch.tensor([ids])).argmax(dim=-1)[0]"
        yield f"print([tokenizer.id_to_token(int(word)) for i, word in zip(ids, found) if i == {UNK}])"

    @torch.no_grad()
    def answer(self, trained: TrainedModel, text: str, ids: list[int]) -> Filled:
        """The text with its masks filled in, each by its most probable token."""
        if trained.specials is None:
            mask, read = UNK, [BOS, *ids[:trained.context - 2], EOS]
        else:
            mask, read = trained.specials.get("mask", -1), ids[:trained.context]
        best = trained.model(torch.tensor([read]))[0].argmax(dim=-1).tolist()
        words = tuple(trained.tokenizer.decode([word]).strip() for i, word in zip(read, best) if i == mask)
        filled = [word if i == mask else i for i, word in zip(read, best)]
        return Filled(text, words, trained.tokenizer.decode(filled, skip_special_tokens=True))


@dataclass(frozen=True)
class Filled(Answer):
    """The words in the places of a text's masks, and the text with them."""

    words: tuple[str, ...]
    filled: str

    @property
    def line(self) -> str:
        """The text with its masks filled in."""
        return self.filled


class MaskedSplit:
    """Windows of a stream, with some tokens masked: different ones in every batch, always the same for evaluation."""

    def __init__(self, windows: PackedSplit, marks: Marks) -> None:
        self.windows, self.marks = windows, marks

    def __len__(self) -> int:
        """How many windows there are."""
        return len(self.windows)

    def batch(self, index: int, size: int, seed: int) -> Batch:
        """The `index`-th batch of the endless order."""
        tokens = self.windows.batch(index, size, seed).tokens
        noise = np.random.default_rng([seed % 2**64, index, size]).random((size, 3, tokens.shape[1]))
        return self._masked(tokens, None, noise)

    def in_order(self, size: int, limit: int | None = None) -> Iterator[Batch]:
        """The windows from the start."""
        for places, batch in zip(in_batches(len(self), size, limit), self.windows.in_order(size, limit)):
            noise = [np.random.default_rng([place]).random((3, self.windows.context)) for place in places.tolist()]
            yield self._masked(batch.tokens, batch.mask, np.stack(noise)[..., :batch.tokens.shape[1]])

    def _masked(self, tokens: Tensor, mask: Tensor | None, noise: NDArray[np.float64]) -> Batch:
        """Args: noise: (batch, 3, n) which tokens are predicted, how they are seen, and the random ones."""
        begin, end, as_mask, vocab_size = self.marks
        first, how, word = torch.from_numpy(noise).unbind(1)
        first = first if mask is None else first.masked_fill(~mask, 1.0)
        chosen = (first < PREDICTED) | (first == first.amin(dim=1, keepdim=True))  # at least one of every window
        labels = tokens.masked_fill(~chosen, IGNORE)
        seen = tokens.masked_fill(chosen & (how < AS_MASK), as_mask)
        seen = torch.where(chosen & (how >= 1 - AS_RANDOM), (word * vocab_size).long(), seen)
        return Batch(tokens=_around(seen, begin, end), labels=_around(labels, IGNORE, IGNORE),
                     mask=None if mask is None else _around(mask, True, True))


def _around(window: Tensor, before: int, after: int) -> Tensor:
    """A window with a column before and one after it."""
    rows = window.shape[0]
    return torch.cat([window.new_full((rows, 1), before), window, window.new_full((rows, 1), after)], dim=1)


def _marked(marks: Marks) -> Arrays:
    return {f"{split}.marks": np.array(marks, dtype=np.int32) for split in SPLITS}


TASK = MaskedLanguageModelling()
