"""The stages `generate` and `predict`: run a subnet on texts; its task determines the output.

Text is tokenised as in training: names of special tokens, such as `<unk>` in published data sets, become those tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer

from nas import tasks
from nas.core.progress import StageProgress
from nas.core.stopping import Stopped
from nas.core.subnet import Subnet
from nas.stages.use.request import GenerateRequest, PredictRequest
from nas.tasks.answering import Answer, TrainedModel
from nas.tasks.tokenizer import EOS, encode
from search_spaces import InputError
from search_spaces.errors import Command


@dataclass(frozen=True)
class GeneratedText:
    """Generated text of a language model.

    Args:
        tokens: number of generated tokens.
        notes: sentences the user should read.
    """

    prompt: str
    text: str
    tokens: int
    notes: tuple[str, ...]


def generate(request: GenerateRequest, progress: StageProgress) -> GeneratedText:
    """Continue a text, to the end of its document or of the context at most. Raises InputError.

    The prompt is the beginning of a document. A prompt longer than the context is truncated on the left: room is kept
    for the requested tokens, but at least half of the context is used.
    """
    subnet, n = _opened(request.subnet, "generate"), request.tokens
    model, tokenizer, context = subnet.model(), subnet.tokenizer(), subnet.arch.context
    specials = subnet.facts.specials if subnet.facts.brings_tokenizer else None
    stop = EOS if specials is None else specials.get("eos")
    ids, notes = _ids(tokenizer, request.text, specials is not None), []
    ids = [EOS, *ids] if specials is None else ids
    if not ids:
        raise InputError("text", "is empty; give a prompt")
    if len(ids) > context:
        kept = max(context + 1 - n, (context + 1) // 2)
        notes.append(f"the prompt has {len(ids):,} tokens, but the context is {context:,}; only the last {kept:,} "
                     "are used")
        ids = ids[-kept:]
    room = context + 1 - len(ids)  # the last token is written, not read
    written = model.generate(torch.tensor([ids]), min(n, room), temperature=request.temperature, top_k=request.top_k,
                             seed=request.seed, stop=stop)[0].tolist()
    if len(written) == room < n and written[-1] != stop:
        notes.append(f"stopped after {room:,} tokens: the context of {context:,} is full")
    for note in notes:
        progress.note(f"note: {note}")
    return GeneratedText(request.text, tokenizer.decode(written, skip_special_tokens=True), len(written), tuple(notes))


def predict(request: PredictRequest, progress: StageProgress) -> Iterator[Answer]:
    """The prediction of a model for each text, one after the other. Raises InputError, Stopped."""
    subnet = _opened(request.subnet, request.command)
    trained = TrainedModel(str(subnet.path), subnet.model(), subnet.tokenizer(), subnet.facts.labels,
                           subnet.facts.scale, subnet.facts.specials if subnet.facts.brings_tokenizer else None,
                           "pair" in subnet.facts.data)
    task = tasks.get(subnet.facts.task)
    for text in request.texts:
        yield task.answer(trained, text, _cut(trained, text, progress))


def _opened(name: str, command: str | None) -> Subnet:
    """A subnet whose task has that command, or any. Raises InputError, with the command that fits."""
    subnet = Subnet.open(name)
    if not subnet.facts.task:
        raise InputError(name, "is an imported encoder without a task: it returns hidden states, or predicts masked "
                               "tokens")
    task = tasks.get(subnet.facts.task)
    if command not in (None, task.command):
        raise InputError(name, f"is a model for the task {task.name}; use {Command(task.command)}")
    return subnet


def _ids(tokenizer: Tokenizer, text: str, specials: bool) -> list[int]:
    """The tokens of a text; with those that an imported tokenizer adds."""
    readable = text.encode("utf-8", "replace").decode()  # a shell may pass invalid text
    return list(tokenizer.encode(readable).ids) if specials else next(encode(tokenizer, [readable]))


def _cut(trained: TrainedModel, text: str, progress: StageProgress) -> list[int]:
    """The tokens of a text, truncated with a note if too long."""
    if progress.stop():
        raise Stopped
    ids = _ids(trained.tokenizer, text.strip(), trained.specials is not None)
    if len(ids) >= trained.context:
        progress.note(f"note: {text[:20]!r}... has {len(ids) + 1:,} tokens, but the context is "
                      f"{trained.context:,}; only the beginning is used")
    return ids
