"""Number names in English and German, by grammar: a translation task that needs no download."""

from __future__ import annotations

import random

from nas.tasks.files import Row
from nas.tasks.options import WHERE
from nas.tasks.sources import Rows
from search_spaces.errors import Fault, InputError

LARGEST = 999_999
_HELD_OUT = 1_000
"""Numbers of validation and of test; fewer for smaller data."""

_ENGLISH = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
            "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
_ENGLISH_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_GERMAN = ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf",
           "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn"]
_GERMAN_TENS = ["zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"]


def english(number: int) -> str:
    """The name of a number from 0 to 999,999, as `one hundred twenty-three thousand four`."""
    if number < 20:
        return _ENGLISH[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _ENGLISH_TENS[tens - 2] + (f"-{_ENGLISH[ones]}" if ones else "")
    unit, word = (100, "hundred") if number < 1000 else (1000, "thousand")
    count, rest = divmod(number, unit)
    return f"{english(count)} {word}" + (f" {english(rest)}" if rest else "")


def german(number: int) -> str:
    """The name of a number from 0 to 999,999, in one word; always `einhundert` and `eintausend`."""
    if number < 20:
        return _GERMAN[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return (f"{_stem(ones)}und" if ones else "") + _GERMAN_TENS[tens - 2]
    unit, word = (100, "hundert") if number < 1000 else (1000, "tausend")
    count, rest = divmod(number, unit)
    return _stem(count) + word + (german(rest) if rest else "")


def _stem(number: int) -> str:
    """The name before another word: eins loses its s (einundzwanzig, hunderteintausend)."""
    name = german(number)
    return name.removesuffix("s") if number % 100 == 1 else name


def number_pairs(size: int, direction: str, seed: int) -> Rows:
    """`size` training pairs; validation and test are numbers that training does not have."""
    held_out = min(_HELD_OUT, max(1, size // 10))
    if size + 2 * held_out > LARGEST + 1:
        message = f"is {size:,}; allowed: at most {LARGEST + 1 - 2 * _HELD_OUT:,} different numbers"
        raise InputError(WHERE, [Fault("size", message)])
    rng = random.Random(f"numbers {seed}")  # noqa: S311 - repeatable, not secret
    numbers = rng.sample(range(LARGEST + 1), size + 2 * held_out)
    first, second = (english, german) if direction == "en-de" else (german, english)
    pairs: list[Row] = [(first(number), second(number)) for number in numbers]
    return {"train": pairs[2 * held_out:], "valid": pairs[:held_out], "test": pairs[held_out:2 * held_out]}
