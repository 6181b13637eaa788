"""The tokeniser: byte-level BPE over the bytes that the training text has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Encoding, Tokenizer, decoders, models, pre_tokenizers, trainers

from nas.tasks.options import WHERE
from search_spaces.errors import Fault, InputError, Setting
from search_spaces.files.reading import read_table, read_text

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
PAD, BOS, EOS, UNK = range(4)
_LONG = re.compile(r"\S{2000}|\s{2000}")
_AT_ONCE = 20_000
"""Texts encoded in one call: enough to keep the threads busy, few enough to hold in memory."""


FACTS = "metrics.json"
"""The file of a subnet's folder that has the ids of its special tokens."""
_NAMES = {"pad": ("[PAD]", "<pad>", "<|pad|>"), "bos": ("[CLS]", "<s>", "<bos>", "<|begin_of_text|>", "<|im_start|>"),
          "eos": ("[SEP]", "</s>", "<eos>", "<|end_of_text|>", "<|im_end|>", "<|endoftext|>"),
          "mask": ("[MASK]", "<mask>")}
"""Special tokens of published tokenizers."""


def is_own(tokenizer: Tokenizer) -> bool:
    """Whether `train_tokenizer` made it; others add their special tokens to a text themselves."""
    return all(tokenizer.token_to_id(name) == i for i, name in enumerate(SPECIALS))


def brought_specials(tokenizer: Tokenizer) -> dict[str, int]:
    """The ids of special tokens of a published tokenizer; empty for one of our own."""
    if is_own(tokenizer):
        return {}
    ids = {ours: next((i for name in names if (i := tokenizer.token_to_id(name)) is not None), None)
             for ours, names in _NAMES.items()}
    return {ours: i for ours, i in ids.items() if i is not None}


@dataclass(frozen=True)
class BroughtTokenizer:
    """A published tokenizer, which adds special tokens to a text itself.

    Args:
        specials: the ids of its special tokens, as far as they are known: pad, bos, eos, mask, and begin of a decoder.
    """

    tokenizer: Tokenizer
    specials: Mapping[str, int]

    def special(self, name: str, purpose: str) -> int:
        """The id of a special token. Raises InputError if there is none."""
        token = self.specials.get(name)
        if token is None:
            known = f"; known: {', '.join(_NAMES[name])}" if name in _NAMES else "; give an imported model's folder"
            raise InputError(WHERE, [Fault("tokenizer", f"has no token that {purpose}{known}")])
        return token

    def encoded(self, texts: Sequence[str | tuple[str, ...]], context: int) -> list[Encoding]:
        """Texts, or pairs of texts, with special tokens; long ones are cut before these, the longer of a pair first."""
        cut = parse_tokenizer(self.tokenizer.to_str())
        cut.enable_truncation(context)
        return [encoding for start in range(0, len(texts), _AT_ONCE)
                for encoding in cut.encode_batch(list(texts[start:start + _AT_ONCE]))]


def parse_tokenizer(text: str) -> Tokenizer:
    """A tokenizer from its file. Some published ones pad and truncate all texts, which is left to batches here.

    Raises:
        Exception: the text is not a tokenizer; the library has no class of its own for that.
    """
    tokenizer = Tokenizer.from_str(text)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def open_tokenizer(path: str) -> Tokenizer | BroughtTokenizer:
    """The tokenizer of a subnet's folder, or of a tokenizer.json. Raises InputError."""
    file = Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
    text = read_text(file, "give a subnet's folder or a tokenizer.json")
    try:
        tokenizer = parse_tokenizer(text)
    except Exception as error:  # the library raises Exception itself
        raise InputError(str(file), f"is not a tokenizer ({error})") from None
    if is_own(tokenizer):
        return tokenizer
    return BroughtTokenizer(tokenizer, {**brought_specials(tokenizer), **_listed_specials(file.parent / FACTS)})


def _listed_specials(path: Path) -> dict[str, int]:
    """The ids of special tokens in a subnet's facts; empty where there are none."""
    if not path.is_file():
        return {}
    listed = read_table(path, "give a subnet's folder or a tokenizer.json").get("specials")
    return {str(name): i for name, i in listed.items() if type(i) is int} if isinstance(listed, dict) else {}


def train_tokenizer(texts: Iterable[str], vocab_size: int, reason: str, hint: str = "") -> Tokenizer:
    """A tokeniser of exactly `vocab_size` pieces.

    The alphabet contains only seen bytes, so that small vocabularies are not filled with unused ones; other bytes
    become `<unk>`. The names of the specials, written in a text, become the specials.

    Args:
        reason: subject of the message about the size.
        hint: end of the message about too little text.

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
        raise InputError(WHERE, [Fault("vocab_size", _misfit(vocab_size, got, reason, hint))])
    return tokenizer


def _misfit(n: int, got: int, reason: str, hint: str) -> str:
    if got > n:
        return f"{n:,} is too small: the bytes of the training text and the special tokens alone take {got:,} " \
               f"tokens; give {Setting('data', 'vocab_size', got)} or more"
    return f"{reason} {n:,} tokens, but the training text yields only {got:,}; " \
           f"give {Setting('data', 'vocab_size', got)} or more text{hint}"


def _without_specials(texts: Iterable[str]) -> Iterator[str]:
    """Special tokens such as `<unk>` are removed, so that no piece is spent on their letters.

    Words of thousands of characters are cut, because the time that the trainer takes grows with their square.
    """
    for text in texts:
        for special in SPECIALS:
            text = text.replace(special, " ")
        start = 0
        for match in _LONG.finditer(text):
            yield text[start:match.end()]
            start = match.end()
        yield text[start:]


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[list[int]]:
    """The ids of each text, in chunks, because lists of numbers take much memory."""
    for start in range(0, len(texts), _AT_ONCE):
        encodings = tokenizer.encode_batch_fast(list(texts[start:start + _AT_ONCE]), add_special_tokens=False)
        yield from (encoding.ids for encoding in encodings)
