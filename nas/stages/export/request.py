"""The request of the stage `export`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nas.stages.export import formats
from search_spaces import Architecture, InputError
from search_spaces.errors import Option

TOLERANCE = 1e-4
"""The largest difference of a logit in full precision, over the largest logit."""
STOCK = ("huggingface", "gguf")
"""Formats in which all layers have the same size."""


@dataclass(frozen=True)
class ExportRequest:
    """Write a subnet in a format that other programs run.

    Args:
        subnet: a folder, or RUN/KEY, where KEY is a prefix of its key.
        int8: also quantise the weights.
        out: the folder to write; `exports/FORMAT` in the subnet's by default.
        length: tokens of a sequence, for formats that fix them; the context by default.
        max_loss_increase: nats that int8 may add to the loss.
        no_decoder: leave out the decoder with its cache; for models with a block that cannot decode token by token.
        pad: pad layers with zeros to equal sizes, so that a stock class of transformers can hold the model.

    Raises:
        InputError: there is no such format, or it does not support what is requested.
    """

    subnet: str
    format: str
    int8: bool = False
    out: Path | None = None
    length: int | None = None
    max_loss_increase: float | None = None
    no_decoder: bool = False
    pad: bool = False

    def __post_init__(self) -> None:
        module = formats.get(self.format)
        if self.int8 and not module.INT8:
            able = ", ".join(name for name in formats.names() if formats.get(name).INT8)
            raise InputError(Option("int8"), f"is not supported by {self.format}; supported by: {able}")
        if self.length is not None and module.DYNAMIC:
            fixed = ", ".join(name for name in formats.names() if not formats.get(name).DYNAMIC)
            raise InputError(Option("length"), f"has no effect on {self.format}, which takes any length; formats with "
                                               f"a fixed length: {fixed}")
        if self.max_loss_increase is not None and not self.int8:
            raise InputError(Option("max_loss_increase"), f"is allowed with {Option('int8')} only; otherwise logits "
                                                          f"may differ by at most {TOLERANCE:g}")

        if self.no_decoder and not hasattr(module, "call"):
            able = ", ".join(name for name in formats.names() if hasattr(formats.get(name), "call"))
            raise InputError(Option("no_decoder"), f"has no effect on {self.format}, which has no decoder of its own; "
                                                   f"formats that have one: {able}")
        if self.pad and self.format not in STOCK:
            raise InputError(Option("pad"), f"has no effect on {self.format}, which takes layers of different sizes; "
                                            f"formats that need it: {', '.join(STOCK)}")

    @property
    def name(self) -> str:
        """Name of the export."""
        return f"{self.format}-int8" if self.int8 else self.format

    def check_available(self) -> None:
        """Raises InputError if the format cannot be written on this machine."""
        why = formats.get(self.format).missing()
        if why:
            raise InputError(Option("format"), f"{self.format} cannot be written here: {why}")

    def check_decoder(self, arch: Architecture) -> None:
        """Raises InputError if there is no decoder to leave out."""
        if self.no_decoder and arch.family == "encoder":
            raise InputError(Option("no_decoder"), "has no effect on encoders, which have no decoder")

    def sequence_length(self, arch: Architecture) -> int:
        """Tokens of a sequence. Raises InputError if the architecture takes fewer."""
        if self.length is not None and not 1 <= self.length <= arch.context:
            raise InputError(Option("length"), f"{self.length} is not allowed; allowed: 1 to the context, "
                                               f"{arch.context}")
        return self.length or arch.context
