"""How a vocabulary is split into bands of words, frequent ones first; declarations use it, so it needs no torch."""

from __future__ import annotations


def band_ends(vocab_size: int, bands: int, first: int, growth: float) -> tuple[int, ...]:
    """The word after each band: `first`, then `growth` times as many, and the whole vocabulary at last."""
    return (*(round(first * growth**i) for i in range(bands - 1)), vocab_size)


def describe_bands(vocab_size: int, rank: int, bands: int, first: int, growth: float, factor: int) -> str:
    """Rows and width of the table of each band, as the fact `tables` of a head has it: `20000x128 247744x32`."""
    ends = band_ends(vocab_size, bands, first, growth)
    rows = (end - start for start, end in zip((0, *ends), ends))
    return " ".join(f"{count}x{rank // factor**i}" for i, count in enumerate(rows))


def parse_bands(tables: str) -> list[tuple[int, int]]:
    """Rows and width of the table of each band, out of the text that `describe_bands` gives."""
    return [(int(rows), int(width)) for rows, width in (table.split("x") for table in tables.split())]


def bands_fit(vocab_size: int, bands: int, first: int, growth: float) -> bool:
    """Whether every band has a word."""
    ends = band_ends(vocab_size, bands, first, growth)
    return all(start < end for start, end in zip((0, *ends), ends))
