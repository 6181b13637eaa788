"""An imported model against transformers: the same outputs on random tokens and on a text."""

# mypy: disable-error-code="import-untyped, import-not-found, no-untyped-call, attr-defined"

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from hardware_profiles.quiet import quiet
from nas.importers import Checkpoint, ImportedModel
from search_spaces.errors import CheckFailedError, InputError

TOLERANCE = 1e-4
"""The most that outputs may differ, both in float32; of outputs beyond 1, as a share of the largest."""
TEXT = "The quick brown fox jumps over the lazy dog, and nobody in the village saw it happen."
LENGTH, ROWS, SEED = 48, 3, 0


def largest_difference(checkpoint: Checkpoint, imported: ImportedModel, tokenizer: Tokenizer) -> float | None:
    """How much the outputs differ at most; None if transformers is not installed.

    Raises:
        InputError: transformers cannot load the model.
        CheckFailedError: they differ by more than `TOLERANCE`.
    """
    if find_spec("transformers") is None:
        return None
    stock = _stock(checkpoint, imported)
    worst = 0.0
    with torch.no_grad(), quiet():
        for inputs in _inputs(imported, tokenizer, _pad(checkpoint, imported.model.arch.vocab_size)):
            theirs, ours = _stock_output(stock, imported, inputs), _own_output(imported, inputs)
            mask = inputs.get("attention_mask")
            if theirs.ndim == 3 and theirs.shape[:2] == inputs["input_ids"].shape and mask is not None:
                theirs, ours = theirs[mask], ours[mask]
            difference = float((theirs - ours).abs().max())
            if not difference <= TOLERANCE * max(1.0, float(theirs.abs().max())):
                raise CheckFailedError(str(checkpoint.folder), (
                    f"the outputs of the imported model differ from those of {imported.stock.cls} by {difference:.1e}; "
                    f"allowed: {TOLERANCE:g}; nothing is written"))
            worst = max(worst, difference)
    return worst


def _pad(checkpoint: Checkpoint, vocab_size: int) -> int:
    """The padding token. Configs without one leave it out, or have -1."""
    token_id = checkpoint.config.get("pad_token_id")
    return token_id if isinstance(token_id, int) and 0 <= token_id < vocab_size else 0


def _stock(checkpoint: Checkpoint, imported: ImportedModel) -> Any:
    with quiet():
        import transformers

        try:
            model = getattr(transformers, imported.stock.cls).from_pretrained(
                checkpoint.folder, dtype=torch.float32, local_files_only=True)
        except Exception as error:  # of many kinds
            reason = " ".join(str(error).split())[:200]
            raise InputError(str(checkpoint.folder), f"transformers cannot load it: {reason}") from None
    return model.eval()


def _inputs(imported: ImportedModel, tokenizer: Tokenizer, pad: int) -> Iterator[dict[str, Tensor]]:
    """A text, and random tokens with padding at the end."""
    arch, generator = imported.model.arch, torch.Generator().manual_seed(SEED)
    most = min(LENGTH, arch.context)

    def randoms(rows: int, length: int) -> Tensor:
        ids = torch.randint(0, max(arch.vocab_size - 1, 1), (rows, length), generator=generator)
        return ids + (ids >= pad) if arch.vocab_size > 1 else ids  # all but the padding

    ids = tokenizer.encode(TEXT).ids[:most]
    if ids and max(ids) < arch.vocab_size:
        yield _with_target(arch.family, {"input_ids": torch.tensor([ids])}, randoms(1, most))
    tokens, mask = randoms(ROWS, most), torch.ones(ROWS, most, dtype=torch.bool)
    mask[1, most // 2 + 1:] = False
    inputs = {"input_ids": tokens.masked_fill(~mask, pad), "attention_mask": mask}
    if arch.n_types > 1:
        inputs["token_type_ids"] = torch.randint(0, arch.n_types, tokens.shape, generator=generator)
    yield _with_target(arch.family, inputs, randoms(ROWS, max(most // 2, 1)))


def _with_target(family: str, inputs: dict[str, Tensor], target: Tensor) -> dict[str, Tensor]:
    return {**inputs, "decoder_input_ids": target} if family == "seq2seq" else inputs


def _stock_output(stock: Any, imported: ImportedModel, inputs: dict[str, Tensor]) -> Tensor:
    given = {**inputs, "attention_mask": inputs["attention_mask"].long()} if "attention_mask" in inputs else inputs
    outputs = stock(**given)
    head = imported.model.arch.head
    return torch.as_tensor(outputs.pooler_output if head.kind == "features" and head["pooler"] else outputs[0])


def _own_output(imported: ImportedModel, inputs: dict[str, Tensor]) -> Tensor:
    return torch.as_tensor(imported.model(
        inputs["input_ids"], inputs.get("decoder_input_ids"), mask=inputs.get("attention_mask"),
        types=inputs.get("token_type_ids")))
