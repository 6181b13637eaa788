"""Translation: generate the translation of a source sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from nas.tasks.answering import Answer, TrainedModel
from nas.tasks.base import Prepared, Task, Watch, unwatched
from nas.tasks.cache import Arrays
from nas.tasks.decoding import Ends, greedy, most_written, texts_of
from nas.tasks.files import Row, format_of, lines_of, read_rows, read_text
from nas.tasks.numbers import number_pairs
from nas.tasks.options import SPLITS, WHERE, Options
from nas.tasks.scoring import cut_note, n_right, summed_loss
from nas.tasks.sources import Rows
from nas.tasks.splits import BucketedSplit, Ragged
from nas.tasks.tokenizer import BOS, EOS, BroughtTokenizer, encode
from search_spaces.architecture import Architecture
from search_spaces.errors import Fault, InputError
from supernet.batch import Batch, Split


class Translation(Task):
    """Rows are a source and a target sentence, with a common vocabulary."""

    name = "translation"
    help = "translate a source sentence"
    family = "seq2seq"
    title, first_space, command, sample = "Translation model", "seq2seq-small", "translate", "a sentence"
    roles = ("source", "target")
    takes_tokenizer = True
    extras = {"direction": ("de-en", "en-de"), "size": ()}
    embedded_vocab = 256  # stems and endings; more would be memorised whole numbers
    metrics = {"loss": False, "accuracy": True, "bleu": True, "exact_match": True}
    costly = ("bleu", "exact_match")

    def read(self, path: str, options: Options) -> list[Row]:
        """The rows of a table, or of two parallel files.

        They are `PATH.SOURCE` and `PATH.TARGET`, or the path with its `*` replaced by `SOURCE` and by `TARGET`.
        """
        if format_of(path, options) != "text":
            return read_rows(path, options, self.roles)
        names = [path.replace("*", part) if "*" in path else f"{path}.{part}" for part in options.columns]
        if options.columns == self.roles and not Path(names[0]).expanduser().exists():
            message = "is missing; source=en target=de reads the files PATH.en and PATH.de"
            raise InputError(WHERE, [Fault(role, message) for role in self.roles])
        source, target = (lines_of(read_text(name, options.encoding)) for name in names)
        if len(source) != len(target):
            raise InputError(names[0], f"has {len(source):,} lines but {names[1]} has {len(target):,}; each line must "
                                       "have its translation")
        return list(zip(source, target))

    def embedded(self, options: Options, seed: int) -> Rows:
        """Number names; by default into English, whose several words BLEU can score in part."""
        size = int(options.extras.get("size", 20_000))
        return number_pairs(size, options.extras.get("direction", "de-en"), seed)

    def cleaned(self, rows: list[Row], split: str, notes: list[str]) -> list[Row]:
        """The pairs without an empty source or target."""
        stripped: list[Row] = [(source.strip(), target.strip()) for source, target in rows]
        whole = [row for row in stripped if all(row)]
        if not whole:
            raise InputError(WHERE, [Fault(split, "every pair has an empty source or target")])
        if len(whole) < len(rows):
            notes.append(f"{len(rows) - len(whole):,} of {len(rows):,} pairs of {split} have an empty source "
                         "or target and were removed")
        return whole

    def texts(self, rows: list[Row]) -> Iterator[str]:
        """Both languages."""
        return (text for row in rows for text in row)

    def encode(self, rows: Rows, tokenizer: Tokenizer, labels: tuple[str, ...], context: int,
               notes: list[str]) -> Arrays:
        """Source and `<eos>`; `<bos>`, target and `<eos>`, of which the model reads all but the last."""
        arrays: Arrays = {}
        n_cut = 0
        for split in SPLITS:
            sources, targets = (list(encode(tokenizer, list(texts))) for texts in zip(*rows[split]))
            n_cut += sum(len(ids) >= context for ids in (*sources, *targets))
            arrays |= _arrays(split, [as_read(ids, context) for ids in sources],
                              [[BOS, *ids[:context - 1], EOS] for ids in targets])
        notes += cut_note(n_cut, 2 * sum(map(len, rows.values())), context)
        return arrays

    def encode_brought(self, rows: Rows, brought: BroughtTokenizer, labels: tuple[str, ...], context: int,
                       notes: list[str]) -> Arrays:
        """Both texts with the special tokens of the tokenizer, and before the target what a decoder begins with."""
        arrays: Arrays = {}
        n_cut, begin = 0, brought.special("begin", "a decoder begins with")
        brought.special("eos", "ends a text")
        for split in SPLITS:
            sources, targets = (brought.encoded(list(texts), context) for texts in zip(*rows[split]))
            n_cut += sum(bool(encoding.overflowing) for encoding in (*sources, *targets))
            arrays |= _arrays(split, [encoding.ids for encoding in sources],
                              [[begin, *encoding.ids] for encoding in targets])
        notes += cut_note(n_cut, 2 * sum(map(len, rows.values())), context)
        return arrays

    def open(self, arrays: Arrays, context: int) -> Split:
        """The pairs in buckets."""
        targets = Ragged(arrays["target"], arrays["target_offsets"])
        return BucketedSplit(Ragged(arrays["source"], arrays["source_offsets"]), targets=targets)

    @torch.no_grad()
    def evaluate(self, logits: Callable[[Batch], Tensor], prepared: Prepared, split: str, *, size: int,
                 limit: int | None, full: bool, watch: Watch = unwatched) -> dict[str, float]:
        """Loss in nats and token accuracy, given the correct previous tokens (teacher forcing).

        With `full`, generation is scored: BLEU (0 to 100, of decoded texts) and the fraction of exact matches.
        """
        total, right, n = 0.0, 0, 0
        ends = Ends(prepared.specials["begin"], prepared.specials["eos"]) if prepared.specials else Ends()
        written: list[str] = []
        wanted: list[str] = []
        for batch in prepared.split(split).in_order(size, limit):
            outputs = logits(batch)
            total += (loss := summed_loss(outputs, batch.labels))
            watch(loss)
            right += n_right(outputs, batch.labels)
            n += batch.n_labels
            if full:
                written += texts_of(greedy(logits, batch, prepared.space.context, ends), prepared.tokenizer, ends)
                wanted += texts_of(batch.labels, prepared.tokenizer, ends)
        scores = {"loss": total / n, "accuracy": right / n}
        return {**scores, **_scores(written, wanted)} if full else scores

    def snippet(self, arch: Architecture) -> Iterator[str]:
        """Translates a sentence."""
        yield f'ids = [*tokenizer.encode("a sentence").ids, {EOS}]    # {EOS}: where a sentence ends'
        yield f"written = model.generate(torch.tensor([ids]), {arch.context // 2}, begin={BOS}, stop={EOS})"
        yield "print(tokenizer.decode(written[0].tolist()))"

    def answer(self, trained: TrainedModel, text: str, ids: list[int]) -> Translated:
        """A translation; always the most probable next token."""
        specials = trained.specials
        source = as_read(ids, trained.context) if specials is None else ids[:trained.context]
        begin, stop = (BOS, EOS) if specials is None else (specials.get("begin", specials.get("bos", 0)),
                                                           specials.get("eos"))
        most = min(most_written(len(source)), trained.context)
        written = trained.model.generate(torch.tensor([source]), most, begin=begin, stop=stop)
        if specials is not None:
            return Translated(text, trained.tokenizer.decode(written[0].tolist(), skip_special_tokens=True))
        return Translated(text, texts_of(written, trained.tokenizer)[0])


@dataclass(frozen=True)
class Translated(Answer):
    """A text and its translation."""

    translation: str

    @property
    def line(self) -> str:
        """The translation."""
        return self.translation


def _arrays(split: str, sources: list[list[int]], targets: list[list[int]]) -> Arrays:
    source, target = Ragged.of(sources), Ragged.of(targets)
    return {f"{split}.source": source.ids, f"{split}.source_offsets": source.offsets,
            f"{split}.target": target.ids, f"{split}.target_offsets": target.offsets}


def as_read(source: list[int], context: int) -> list[int]:
    """The model input of a source's tokens: as many as fit the context, and `<eos>`."""
    return [*source[:context - 1], EOS]


def _scores(written: list[str], wanted: list[str]) -> dict[str, float]:
    from sacrebleu import corpus_bleu

    same = sum(text == right for text, right in zip(written, wanted))
    # the effective order matters only where no text has four words, such as German numbers: BLEU would always be 0
    bleu = corpus_bleu(written, [wanted], force=True, use_effective_order=True).score
    return {"bleu": bleu, "exact_match": same / len(wanted)}


TASK = Translation()
