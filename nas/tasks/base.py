"""The contract of a task, and its shared parts: options, cache, vocabulary."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from tokenizers import Tokenizer
from torch import Tensor

from nas.tasks import cache
from nas.tasks.answering import Answer, TrainedModel
from nas.tasks.cache import Arrays, Encoded
from nas.tasks.files import Row
from nas.tasks.options import SPLITS, WHERE, Options, parse
from nas.tasks.sources import Rows, read_splits, take_off, thin
from nas.tasks.tokenizer import BroughtTokenizer, is_own, open_tokenizer, train_tokenizer
from search_spaces.architecture import Architecture
from search_spaces.errors import Command, Fault, InputError, Option
from search_spaces.space.search_space import SearchSpace
from supernet.batch import Batch, Split
from supernet.train.recipe import Recipe

Watch = Callable[[float], None]


def unwatched(loss: float) -> None:
    """The default watcher: does nothing."""


@dataclass(frozen=True)
class Prepared:
    """Data ready to train on.

    Args:
        space: the space with `vocab_size` and `n_classes` made to fit the data.
        labels: the names of the outputs: the classes, or one name where a model predicts a number; none for tokens.
        scale: mean and standard deviation of the training labels, where a model predicts a number in units of these.
        notes: sentences the user should read.
        fingerprint: equal if and only if the encoded data are equal.
        specials: the ids of the special tokens of a published tokenizer; empty for one of our own.
    """

    space: SearchSpace
    train: Split
    valid: Split
    test: Split
    tokenizer: Tokenizer
    labels: tuple[str, ...]
    notes: tuple[str, ...]
    fingerprint: str
    scale: tuple[float, float] | None = None
    specials: Mapping[str, int] = field(default_factory=dict)

    def split(self, name: str) -> Split:
        """The split of that name: train, valid or test."""
        if name not in SPLITS:
            raise InputError("split", f"unknown {name!r}; allowed: {', '.join(SPLITS)}")
        split: Split = getattr(self, name)
        return split


class Task(ABC):
    """A task: data, training targets and metrics. A module of this folder defines one as `TASK`.

    A subclass defines how rows are read, encoded and scored; options, splitting, vocabulary and cache are handled here.
    """

    name: ClassVar[str]
    help: ClassVar[str]
    """What a model does, in a few words: for the help of commands and the reference."""
    family: ClassVar[str]
    """The family of spaces it needs."""
    title: ClassVar[str]
    """What a model is called in its model card."""
    first_space: ClassVar[str]
    """A shipped space to begin with."""
    command: ClassVar[str] = "predict"
    """The command that runs a model on texts."""
    sample: ClassVar[str] = "a text"
    """A text to try a model with."""
    roles: ClassVar[Row]
    """The columns it reads; each is an option that names its column."""
    optional_roles: ClassVar[Row] = ()
    """Columns that it reads after `roles` if the user names them."""
    head: ClassVar[str] = ""
    """The kind of head it needs; empty if any head of the family is allowed."""
    embedded_vocab: ClassVar[int]
    """The maximum vocabulary size of the bundled data."""
    learning_rate: ClassVar[float] = Recipe().lr
    """The default peak learning rate of its supernets."""
    takes_tokenizer: ClassVar[bool] = False
    """Whether it can read texts with a published tokenizer."""
    metrics: ClassVar[Mapping[str, bool]]
    """What `evaluate` measures, and whether more of it is better."""
    from_loss: ClassVar[Mapping[str, Callable[[float], float]]] = {"loss": float}
    """The metrics that follow from the loss alone, and how: the search may end an evaluation early for them."""
    costly: ClassVar[Collection[str]] = ()
    """The metrics that `evaluate` measures only with `full`."""
    extras: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Options of the bundled data: their allowed values, or none for a number."""

    @property
    def recipe(self) -> Recipe:
        """The default training settings of its supernets."""
        return Recipe(lr=self.learning_rate)

    def prepare(self, data: Mapping[str, str], space: SearchSpace, folder: Path, seed: int) -> Prepared:
        """Read, encode and store the data in `folder`, or load them from it.

        Args:
            data: the options; none for the bundled data.
            seed: of the splits, if the data have none, and of generated data.

        Raises:
            InputError: wrong options or data, or a folder of other options.
        """
        self.check(space)
        options = self.options(data)
        request = {**data, "task": self.name, "seed": seed, "space.context": space.context}
        if options.vocab_size is None:
            request["space.vocab_size"] = space.vocab_size
        encoded = cache.read(folder, request)
        if encoded is None:
            encoded = self._encoded(options, space, seed)
            cache.write(folder, request, encoded)
        return self._prepared(encoded, space)

    def check_data(self, data: Mapping[str, str], seed: int = 0) -> None:
        """Read the data as `prepare` does and keep nothing. Raises InputError for wrong options or data.

        The bundled sample data are only checked for their options.
        """
        options = self.options(data)
        if not options.embedded:
            self.labels(self._rows(options, seed, []))

    def may_read(self, rows: Sequence[Row]) -> bool:
        """Whether a few rows, with the columns of `roles`, may be data of this task; `nas init` offers it then."""
        return True

    def options(self, data: Mapping[str, str]) -> Options:
        """The checked options of the data. Raises InputError."""
        return parse(data, self.roles, self.extras, self.optional_roles)

    def _rows(self, options: Options, seed: int, notes: list[str]) -> Rows:
        """The usable rows of every split."""
        if options.embedded:
            rows = self.embedded(options, seed)
        else:
            rows = self.split_off(read_splits(options, lambda path: self.read(path, options)), seed)
        rows["train"] = self.limited(rows["train"], options.limit, seed)
        return {split: self.cleaned(rows[split], split, notes) for split in SPLITS}

    def _encoded(self, options: Options, space: SearchSpace, seed: int) -> Encoded:
        notes: list[str] = []
        rows = self._rows(options, seed, notes)
        labels = self.labels(rows)
        chosen = self._tokenizer(rows["train"], options, space, notes)
        if isinstance(chosen, BroughtTokenizer):
            tokenizer, specials = chosen.tokenizer, dict(chosen.specials)
            arrays = self.encode_brought(rows, chosen, labels, space.context, notes)
        else:
            tokenizer, specials = chosen, {}
            arrays = self.encode(rows, chosen, labels, space.context, notes)
        encoded = Encoded(tokenizer, arrays, labels, tuple(notes), scale=self.scale(rows), specials=specials)
        return replace(encoded, fingerprint=cache.fingerprint(encoded))

    def _tokenizer(self, rows: list[Row], options: Options, space: SearchSpace,
                   notes: list[str]) -> Tokenizer | BroughtTokenizer:
        """A vocabulary of the given size, else of the space's, if the bundled data can fill it."""
        if options.tokenizer is not None:
            return self._brought(open_tokenizer(options.tokenizer), space)
        size = options.vocab_size or space.vocab_size
        reason = "you requested" if options.vocab_size else "the space has"
        if options.embedded and options.vocab_size is None and size > self.embedded_vocab:
            size, reason = self.embedded_vocab, "the bundled data are meant for"
            notes.append(f"the bundled data use a vocabulary of {size:,}, not the {space.vocab_size:,} of the space; "
                         "the data option vocab_size changes it")
        hint = f"; a space around a trained model needs {Option('init')}" if reason == "the space has" else ""
        return train_tokenizer(self.texts(rows), size, reason, hint)

    def _brought(self, brought: Tokenizer | BroughtTokenizer, space: SearchSpace) -> Tokenizer | BroughtTokenizer:
        """The user's tokenizer. Raises InputError if the task or the space cannot use it."""
        if not isinstance(brought, BroughtTokenizer):
            return brought
        if not self.takes_tokenizer:
            raise InputError(WHERE, [Fault("tokenizer", f"the task {self.name} cannot use tokenizers of other models")])
        largest = max((*brought.tokenizer.get_vocab().values(), *brought.specials.values()), default=0)
        if largest >= space.vocab_size:
            raise InputError(WHERE, [Fault("tokenizer", f"has token ids up to {largest:,}; the space has a vocabulary "
                                                        f"of {space.vocab_size:,}")])
        return brought

    def _prepared(self, encoded: Encoded, space: SearchSpace) -> Prepared:
        own = is_own(encoded.tokenizer)  # the table of a pretrained model may have more rows than there are tokens
        fitted = replace(space, vocab_size=encoded.tokenizer.get_vocab_size() if own else space.vocab_size,
                         n_classes=len(encoded.labels) or space.n_classes)
        splits = {}
        for split in SPLITS:
            of_split = {name.removeprefix(f"{split}."): array for name, array in encoded.arrays.items()
                        if name.startswith(f"{split}.")}
            splits[split] = self.open(of_split, space.context)
        return Prepared(space=fitted, tokenizer=encoded.tokenizer, labels=encoded.labels, notes=encoded.notes,
                        fingerprint=encoded.fingerprint, scale=encoded.scale, specials=encoded.specials, **splits)

    # The contract of a task. Rows are tuples of texts in the order of `roles`.

    @abstractmethod
    def read(self, path: str, options: Options) -> list[Row]:
        """The rows of one of the user's files."""

    @abstractmethod
    def embedded(self, options: Options, seed: int) -> Rows:
        """The rows of every split of the bundled data."""

    @abstractmethod
    def encode(self, rows: Rows, tokenizer: Tokenizer, labels: tuple[str, ...], context: int,
               notes: list[str]) -> Arrays:
        """The arrays to store, named `split.array`; may add notes for the user."""

    @abstractmethod
    def open(self, arrays: Arrays, context: int) -> Split:
        """The split of its arrays."""

    @abstractmethod
    def evaluate(self, logits: Callable[[Batch], Tensor], prepared: Prepared, split: str, *, size: int,
                 limit: int | None, full: bool, watch: Watch = unwatched) -> dict[str, float]:
        """Score a model.

        Args:
            logits: runs the model; any device.
            size: examples in a batch.
            limit: size of a random sample of examples; None for all.
            full: compute the costly metrics too.
            watch: called with the loss of every batch, summed over its labels; an exception ends the evaluation.
        """

    @abstractmethod
    def snippet(self, arch: Architecture) -> Iterator[str]:
        """Lines of Python for the model card: run a `model` with its `tokenizer` once; torch and json are imported."""

    def answer(self, trained: TrainedModel, text: str, ids: list[int]) -> Answer:
        """The prediction of a model for a text, whose tokens are given. Raises InputError."""
        raise InputError(trained.where, f"is a model for the task {self.name}; use {Command(self.command)}")

    # Optional overrides.

    def encode_brought(self, rows: Rows, brought: BroughtTokenizer, labels: tuple[str, ...], context: int,
                       notes: list[str]) -> Arrays:
        """As `encode`, with a published tokenizer; only called if `takes_tokenizer`."""
        return self.encode(rows, brought.tokenizer, labels, context, notes)

    def split_off(self, rows: Rows, seed: int) -> Rows:
        """Split missing splits off the training rows."""
        return take_off(rows, seed, self.must_stay)

    def check(self, space: SearchSpace) -> None:
        """Raises InputError if no architecture of the space fits the task."""
        if space.family != self.family:
            message = f"needs a space of the family {self.family}; {space.name} is {space.family}"
            raise InputError("", f"task {self.name} {message}")

    def limited(self, rows: list[Row], limit: int | None, seed: int) -> list[Row]:
        """At most `limit` training rows."""
        return thin(rows, limit, seed, self.must_stay(rows))

    def must_stay(self, rows: Sequence[Row]) -> Collection[int]:
        """The places of training rows that no other split may take."""
        return ()

    def cleaned(self, rows: list[Row], split: str, notes: list[str]) -> list[Row]:
        """The usable rows."""
        return rows

    def texts(self, rows: list[Row]) -> Iterator[str]:
        """What the tokeniser is trained on."""
        return (row[0] for row in rows)

    def labels(self, rows: Rows) -> tuple[str, ...]:
        """The names of the outputs: the classes, or one name where a model predicts a number."""
        return ()

    def scale(self, rows: Rows) -> tuple[float, float] | None:
        """Mean and standard deviation of the training labels, where a model predicts a number in units of these."""
        return None
