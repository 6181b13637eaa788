"""The tokeniser: byte-level BPE over the bytes that the training text has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from nas.tasks.options import WHERE
from search_spaces.errors import Fault, InputError, Setting
from search_spaces.files.reading import read_text

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
PAD, BOS, EOS, UNK = range(4)
_LONG = re.compile(r"\S{2000}|\s{2000}")
_AT_ONCE = 20_000
"""Texts encoded in one call: enough to keep the threads busy, few enough to hold in memory."""


_NAMES = {"pad": ("[PAD]", "<pad>", "<|pad|>"), "bos": ("[CLS]", "<s>", "<bos>", "<|begin_of_text|>", "<|im_start|>"),
          "eos": ("[SEP]", "</s>", "<eos>", "<|end_of_text|>", "<|im_end|>", "<|endoftext|>")}
"""Special tokens of published tokenizers."""


def is_own(tokenizer: Tokenizer) -> bool:
    """Whether `train_tokenizer` made it; others add their special tokens to a text themselves."""
    return all(tokenizer.token_to_id(name) == i for i, name in enumerate(SPECIALS))


def brought_specials(tokenizer: Tokenizer) -> dict[str, int]:
    """The ids of special tokens of a published tokenizer; empty for one of our own."""
    if is_own(tokenizer):
        return {}
    found = {ours: next((i for name in names if (i := tokenizer.token_to_id(name)) is not None), None)
             for ours, names in _NAMES.items()}
    return {ours: i for ours, i in found.items() if i is not None}


def end_token(tokenizer: Tokenizer) -> int:
    """The id that ends a document. Raises InputError if a published tokenizer has none."""
    if is_own(tokenizer):
        return EOS
    found = brought_specials(tokenizer).get("eos")
    if found is None:
        known = ", ".join(_NAMES["eos"])
        raise InputError(WHERE, [Fault("tokenizer", f"has no token that ends a text; known: {known}")])
    return found


def open_tokenizer(path: str) -> Tokenizer:
    """The tokenizer of a subnet's folder, or of a tokenizer.json. Raises InputError."""
    file = Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
    text = read_text(file, "give a subnet's folder or a tokenizer.json")
    try:
        return Tokenizer.from_str(text)
    except Exception as error:  # the library raises Exception itself
        raise InputError(str(file), f"is not a tokenizer ({error})") from None


def encode_whole(tokenizer: Tokenizer, texts: Sequence[str], context: int) -> list[list[int]]:
    """Texts with the special tokens that a published tokenizer adds; the last token stays when a text is cut."""
    found = []
    for start in range(0, len(texts), _AT_ONCE):
        for encoding in tokenizer.encode_batch(list(texts[start:start + _AT_ONCE])):
            ids = list(encoding.ids)
            found.append(ids if len(ids) <= context else [*ids[:context - 1], ids[-1]])
    return found


def train_tokenizer(texts: Iterable[str], vocab_size: int, asked: str) -> Tokenizer:
    """A tokeniser of exactly `vocab_size` pieces.

    The alphabet contains only seen bytes, so that small vocabularies are not filled with unused ones; other bytes
    become `<unk>`. The names of the specials, written in a text, become the specials.

    Args:
        asked: subject of the message about the size.

    Raises:
        InputError: the text yields fewer pieces, or its bytes alone are more.
    """
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))  # noqa: S106 - a word, not a password
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=list(SPECIALS), show_progress=False)
    tokenizer.train_from_iterator(_without_specials(texts), trainer)
    got = tokenizer.get_vocab_size()
    if got != vocab_size:
        raise InputError(WHERE, [Fault("vocab_size", _misfit(vocab_size, got, asked))])
    return tokenizer


def _misfit(n: int, got: int, asked: str) -> str:
    if got > n:
        return f"{n:,} is too small: the bytes of the training text and the special tokens alone are {got:,}; " \
               f"give {Setting('data', 'vocab_size', got)} or more"
    return f"{asked} {n:,} tokens, but the training text yields only {got:,}; " \
           f"give {Setting('data', 'vocab_size', got)} or more text"


def _without_specials(texts: Iterable[str]) -> Iterator[str]:
    """Special tokens such as `<unk>` are removed, so that no piece is spent on their letters.

    Words of thousands of characters are cut, because the time that the trainer takes grows with their square.
    """
    for text in texts:
        for special in SPECIALS:
            text = text.replace(special, " ")
        start = 0
        for found in _LONG.finditer(text):
            yield text[start:found.end()]
            start = found.end()
        yield text[start:]


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[list[int]]:
    """The ids of each text, some at a time: lists of numbers are large."""
    for start in range(0, len(texts), _AT_ONCE):
        found = tokenizer.encode_batch_fast(list(texts[start:start + _AT_ONCE]), add_special_tokens=False)
        yield from (encoding.ids for encoding in found)
