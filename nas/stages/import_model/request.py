"""The request of the stage `import`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nas.importers import HEADS
from search_spaces import InputError
from search_spaces.errors import Option

FOLDER = Path("imported")
"""Where imported models are written unless a folder is named."""


@dataclass(frozen=True)
class ImportRequest:
    """A pretrained model to import.

    Args:
        source: a folder with config.json, safetensors and tokenizer.json, or a name on the Hugging Face Hub.
        out: the folder of the subnet; by default `imported/` and the last part of the source's name.
        head: output of the model, one of `nas.importers.HEADS`; None for that of its class.
        context: the longest sequence; None for the model's own.

    Raises:
        InputError: a value is not allowed.
    """

    source: str
    out: Path | None = None
    head: str | None = None
    context: int | None = None

    def __post_init__(self) -> None:
        if self.head is not None and self.head not in HEADS:
            raise InputError(str(Option("head")), f"{self.head!r} is not allowed; allowed: {', '.join(HEADS)}")
        if self.context is not None and self.context < 1:
            raise InputError(str(Option("context")), f"{self.context} is not allowed; allowed: 1 or more")

    @property
    def folder(self) -> Path:
        """Where the subnet is written."""
        return self.out or FOLDER / (Path(self.source).resolve().name if Path(self.source).exists()
                                     else self.source.rpartition("/")[2])
