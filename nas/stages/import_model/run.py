"""The stage `import`: a pretrained model as a subnet, compared with transformers before it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer

from nas.core.costs import count_params
from nas.core.progress import StageProgress
from nas.core.subnet import TOKENIZER, HistoryStep, Subnet, SubnetFacts, check_free, write_subnet
from nas.importers import Checkpoint, ImportedModel, ImportWishes, convert, fetch
from nas.stages.import_model.checking import largest_difference
from nas.stages.import_model.request import ImportRequest
from nas.tasks.tokenizer import parse_tokenizer
from search_spaces import Architecture, InputError

TASKS = {"lm": "lm", "seq2seq": "translation"}


@dataclass(frozen=True)
class ImportResult:
    """What was imported.

    Args:
        cls: the class of transformers that it equals.
        difference: of the outputs at most; None if transformers is not installed.
        left_out: tensors of the checkpoint that the model does not need.
    """

    subnet: Subnet
    cls: str
    difference: float | None
    left_out: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Data for JSON output."""
        return {"folder": str(self.subnet.path), "key": self.subnet.arch.key, "class": self.cls,
                "params": count_params(self.subnet.arch), "task": self.subnet.facts.task,
                "largest_difference": self.difference, "left_out": list(self.left_out)}


def run(request: ImportRequest, progress: StageProgress) -> ImportResult:
    """Read, convert, compare and write a pretrained model.

    Raises:
        InputError: the folder lacks something, or the model is not supported.
        CheckFailedError: its outputs are not those of transformers.
    """
    check_free(request.folder)
    with progress.breakable():
        progress.status(f"reading {request.source}")
        checkpoint = Checkpoint.open(fetch(request.source))
        text = checkpoint.tokenizer_text()
        imported = convert(checkpoint, ImportWishes(request.head, request.context))
        tokenizer = _tokenizer(checkpoint, text, imported.model.arch)
        progress.status(f"comparing with {imported.stock.cls} of transformers")
        difference = largest_difference(checkpoint, imported, tokenizer)
        if difference is None:
            progress.note("note: transformers is not installed, so the outputs were not compared")
        facts = _facts(request, checkpoint, imported, difference, tokenizer)
        subnet = write_subnet(request.folder, imported.model, tokenizer, facts, {TOKENIZER: text})
    return ImportResult(subnet, imported.stock.cls, difference, imported.left_out)


def _tokenizer(checkpoint: Checkpoint, text: str, arch: Architecture) -> Tokenizer:
    """The model's own. Raises InputError if it is damaged, or makes tokens that the model does not know."""
    try:
        tokenizer = parse_tokenizer(text)
    except Exception as error:  # the library raises Exception itself
        raise InputError(str(checkpoint.folder / TOKENIZER), f"is damaged ({error}); download it again") from None
    largest = max(tokenizer.get_vocab().values(), default=-1)
    if largest >= arch.vocab_size:
        raise InputError(str(checkpoint.folder / TOKENIZER), (
            f"has token ids up to {largest:,}, but the model has a vocabulary of {arch.vocab_size:,}; use the model's "
            "own tokenizer"))
    return tokenizer


def _facts(request: ImportRequest, checkpoint: Checkpoint, imported: ImportedModel, difference: float | None,
           tokenizer: Tokenizer) -> SubnetFacts:
    arch, config = imported.model.arch, checkpoint.config
    settings = {"source": request.source, "model_type": str(config["model_type"]), "class": imported.stock.cls,
                "difference": difference}
    labels = config.get("id2label") if arch.n_classes else None
    return SubnetFacts(
        key=arch.key, task="classification" if arch.n_classes else TASKS.get(arch.family, ""), run="",
        labels=tuple(str(label) for _, label in sorted(labels.items(), key=lambda pair: int(pair[0])))
        if isinstance(labels, Mapping) else tuple(f"LABEL_{i}" for i in range(arch.n_classes)),
        costs={"params": count_params(arch)}, specials=_specials(checkpoint, tokenizer, arch.vocab_size),
        made=(HistoryStep(stage="import", settings=settings),))


def _specials(checkpoint: Checkpoint, tokenizer: Tokenizer, vocab_size: int) -> dict[str, int]:
    """The ids of special tokens: from the generation config, the config, or the tokenizer's config.

    Those that the model does not know are left out: configs keep the defaults of larger models.
    """
    generation, names = checkpoint.optional("generation_config.json"), checkpoint.optional("tokenizer_config.json")
    specials: dict[str, int] = {}
    for ours, theirs in (("pad", "pad"), ("bos", "bos"), ("eos", "eos"), ("begin", "decoder_start")):
        given = [table.get(f"{theirs}_token_id") for table in (generation, checkpoint.config)]
        word = names.get(f"{theirs}_token")
        word = word.get("content") if isinstance(word, Mapping) else word
        given.append(tokenizer.token_to_id(word) if isinstance(word, str) else None)
        given = [token_id[0] if isinstance(token_id, list) and token_id else token_id for token_id in given]
        known = [token_id for token_id in given if type(token_id) is int and 0 <= token_id < vocab_size]
        if known:
            specials[ours] = known[0]
    return specials
