"""Number of validation examples that a quality was evaluated on."""

from __future__ import annotations

from nas.core.data_index import read_index
from nas.core.run_dir import RunDir
from search_spaces import SearchSpace

WHOLE = "the whole validation split"


def split_size(run: RunDir, space: SearchSpace) -> int | None:
    """How many examples the validation split has: windows of a text, or rows; None if it is not known."""
    index = read_index(run)
    sizes = index.sizes if index else {}
    if "valid.stream" in sizes:
        return -(-(sizes["valid.stream"] - 1) // space.context)
    offsets = sizes.get("valid.offsets", sizes.get("valid.source_offsets"))
    return offsets - 1 if offsets else None


def seen(limit: int | None, size: int | None) -> int | None:
    """Number of examples of a limited split; None for the whole split."""
    return None if not limit or (size is not None and limit >= size) else limit


def in_words(examples: int | None) -> str:
    """The evaluation data in words."""
    return WHOLE if examples is None else f"{_counted(examples)} of the validation split"


def in_short(examples: int | None) -> str:
    """The same in short; empty for the whole split."""
    return "" if examples is None else _counted(examples)


def _counted(examples: int) -> str:
    return f"{examples:,} example{'' if examples == 1 else 's'}"
