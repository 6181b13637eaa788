"""The stages `generate`, `classify` and `translate`: see a subnet work.

Text becomes tokens as it did in training: the names of special tokens, such as `<unk>` in published data sets, become
those tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer

from nas.core.progress import StageProgress
from nas.core.stopping import Stopped
from nas.core.subnet import Subnet
from nas.stages.use.request import ClassifyRequest, GenerateRequest, TranslateRequest
from nas.tasks import classification, translation
from nas.tasks.decoding import most_written, texts_of
from nas.tasks.tokenizer import BOS, EOS, encode
from search_spaces import InputError
from search_spaces.errors import Command

COMMANDS = {"lm": "generate", "classification": "classify", "translation": "translate"}
"""The command that fits each task."""


@dataclass(frozen=True)
class GeneratedText:
    """What a language model wrote after a prompt.

    Args:
        tokens: how many it wrote.
        notes: sentences the user should read.
    """

    prompt: str
    text: str
    tokens: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Labelled:
    """The class of a text, and how probable the model finds it."""

    text: str
    label: str
    probability: float


@dataclass(frozen=True)
class Translated:
    """A text and its translation."""

    text: str
    translation: str


def generate(request: GenerateRequest, progress: StageProgress) -> GeneratedText:
    """Continue a text, to the end of its document or of the context at most. Raises InputError.

    The prompt is the beginning of a document. Of one that is longer than the context its end is read: as much as
    leaves room for the tokens of the request, but half of the context at least.
    """
    subnet, n = _opened(request.subnet, "lm"), request.tokens
    model, tokenizer, context = subnet.model(), subnet.tokenizer(), subnet.arch.context
    ids, notes = [EOS, *_ids(tokenizer, request.text)], []
    if len(ids) > context:
        kept = max(context + 1 - n, (context + 1) // 2)
        notes.append(f"the prompt has {len(ids):,} tokens, the context {context:,}; the last {kept:,} are read")
        ids = ids[-kept:]
    room = context + 1 - len(ids)  # the last token is written, not read
    written = model.generate(torch.tensor([ids]), min(n, room), temperature=request.temperature, top_k=request.top_k,
                             seed=request.seed, stop=EOS)[0].tolist()
    if len(written) == room < n and written[-1] != EOS:
        notes.append(f"stopped after {room:,} tokens: the context of {context:,} is full")
    for note in notes:
        progress.note(f"note: {note}")
    return GeneratedText(request.text, tokenizer.decode(written, skip_special_tokens=True), len(written), tuple(notes))


def classify(request: ClassifyRequest, progress: StageProgress) -> Iterator[Labelled]:
    """The class of each text, one after the other. Raises InputError, Stopped."""
    subnet = _opened(request.subnet, "classification")
    model, tokenizer, labels = subnet.model(), subnet.tokenizer(), subnet.facts.labels
    if len(labels) != subnet.arch.n_classes:
        raise InputError(str(subnet.path), f"metrics.json names {len(labels)} classes, the model knows "
                                           f"{subnet.arch.n_classes}; extract it again")
    for text in request.texts:
        ids = classification.as_read(_cut(tokenizer, text, subnet, progress), subnet.arch.context)
        with torch.no_grad():
            found = model(torch.tensor([ids]))[0].softmax(dim=-1)
        best = int(found.argmax())
        yield Labelled(text, labels[best], float(found[best]))


def translate(request: TranslateRequest, progress: StageProgress) -> Iterator[Translated]:
    """The translation of each text, one after the other; always the most probable next token.

    Raises:
        InputError: the subnet is for another task.
        Stopped: the user stopped it.
    """
    subnet = _opened(request.subnet, "translation")
    model, tokenizer, context = subnet.model(), subnet.tokenizer(), subnet.arch.context
    for text in request.texts:
        ids = translation.as_read(_cut(tokenizer, text, subnet, progress), context)
        written = model.generate(torch.tensor([ids]), min(most_written(len(ids)), context), begin=BOS, stop=EOS)
        yield Translated(text, texts_of(written, tokenizer)[0])


def _opened(name: str, task: str) -> Subnet:
    """A subnet that was made for a task. Raises InputError, with the command that fits."""
    found = Subnet.open(name)
    if found.facts.task != task:
        fits = COMMANDS.get(found.facts.task)
        raise InputError(name, f"is a model for the task {found.facts.task}, {Command(COMMANDS[task])} is for {task}"
                               + (f"; use {Command(fits)}" if fits else ""))
    return found


def _ids(tokenizer: Tokenizer, text: str) -> list[int]:
    readable = text.encode("utf-8", "replace").decode()  # a shell passes on what is no text
    return next(encode(tokenizer, [readable]))


def _cut(tokenizer: Tokenizer, text: str, subnet: Subnet, progress: StageProgress) -> list[int]:
    """The tokens of a text; says where it is too long."""
    if progress.stop():
        raise Stopped
    ids = _ids(tokenizer, text.strip())
    if len(ids) >= subnet.arch.context:
        progress.note(f"note: {text[:20]!r}... has {len(ids) + 1:,} tokens, the context {subnet.arch.context:,}; the "
                      "beginning is read")
    return ids
