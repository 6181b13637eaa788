"""Number names and the text that Python brings."""

from __future__ import annotations

from collections import Counter

import pytest

from nas.tasks.embedded import documents, passages
from nas.tasks.numbers import LARGEST, english, german, number_pairs

NAMES = [
    (0, "zero", "null"), (1, "one", "eins"), (12, "twelve", "zwölf"), (16, "sixteen", "sechzehn"),
    (17, "seventeen", "siebzehn"), (20, "twenty", "zwanzig"), (21, "twenty-one", "einundzwanzig"),
    (30, "thirty", "dreißig"), (66, "sixty-six", "sechsundsechzig"), (77, "seventy-seven", "siebenundsiebzig"),
    (100, "one hundred", "einhundert"), (101, "one hundred one", "einhunderteins"),
    (111, "one hundred eleven", "einhundertelf"), (121, "one hundred twenty-one", "einhunderteinundzwanzig"),
    (201, "two hundred one", "zweihunderteins"), (1000, "one thousand", "eintausend"),
    (1001, "one thousand one", "eintausendeins"), (6016, "six thousand sixteen", "sechstausendsechzehn"),
    (17030, "seventeen thousand thirty", "siebzehntausenddreißig"),
    (21021, "twenty-one thousand twenty-one", "einundzwanzigtausendeinundzwanzig"),
    (101000, "one hundred one thousand", "einhunderteintausend"),
    (206107, "two hundred six thousand one hundred seven", "zweihundertsechstausendeinhundertsieben"),
    (999999, "nine hundred ninety-nine thousand nine hundred ninety-nine",
     "neunhundertneunundneunzigtausendneunhundertneunundneunzig"),
]


@pytest.mark.parametrize("number,in_english,in_german", NAMES)
def test_names(number: int, in_english: str, in_german: str) -> None:
    assert (english(number), german(number)) == (in_english, in_german)


def test_names_differ() -> None:
    numbers = range(0, LARGEST + 1, 37)
    assert len({english(n) for n in numbers}) == len({german(n) for n in numbers}) == len(numbers)


def test_no_number_is_in_two_splits() -> None:
    rows = number_pairs(3000, "en-de", 0)
    assert {split: len(part) for split, part in rows.items()} == {"train": 3000, "valid": 300, "test": 300}
    assert len({row for part in rows.values() for row in part}) == 3600
    assert number_pairs(3000, "en-de", 0) == rows != number_pairs(3000, "en-de", 1)
    assert [(b, a) for a, b in number_pairs(3000, "de-en", 0)["test"]] == rows["test"]


def test_paragraphs_come_once() -> None:
    paragraphs = [part for _, text in documents() for part in text.strip().split("\n\n") if len(part) > 200]
    assert max(Counter(paragraphs).values()) == 1 and len(paragraphs) > 500


def test_the_text_is_the_same_each_time() -> None:
    before = documents()
    documents.cache_clear()
    assert documents() == before


def test_classes_are_balanced() -> None:
    found = Counter(label for _, label in passages())
    assert len(found) == 8 and len(set(found.values())) == 1
    assert all(30 <= len(text.split()) <= 80 for text, _ in passages())
