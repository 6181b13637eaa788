"""Tasks with the tokenizer of a pretrained model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from nas import tasks
from nas.tasks.tokenizer import BroughtTokenizer, brought_specials, is_own, open_tokenizer, train_tokenizer
from search_spaces import InputError, load_space

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "good", "bad", "film", "##s")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a BERT's tokenizer."""
    made = Tokenizer(models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]",
                                                        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    made.save(str(tmp_path / "tokenizer.json"))
    rows = [f"{label},A {label} film{'s' * (i % 2)}" for i in range(30) for label in ("good", "bad")]
    (tmp_path / "rows.csv").write_text("label,text\n" + "\n".join(rows) + "\n")
    (tmp_path / "text.txt").write_text("a good film\n" * 200)
    return tmp_path


def prepared(task: str, space: str, data: dict[str, str], folder: Path, vocab_size: int = 40):
    return tasks.get(task).prepare(data, replace(load_space(space), vocab_size=vocab_size), folder / "data", seed=0)


def test_texts_have_the_tokens_that_the_tokenizer_adds(folder: Path) -> None:
    data = {"train": str(folder / "rows.csv"), "tokenizer": str(folder)}
    found = prepared("classification", "encoder-small", data, folder)
    assert found.space.vocab_size == 40 and found.space.n_classes == 2
    rows = {tuple(row[row > 0].tolist()) for batch in found.train.in_order(4, None) for row in batch.tokens}
    assert rows == {(2, 4, 5, 7, 3), (2, 4, 6, 7, 3), (2, 4, 5, 7, 8, 3), (2, 4, 6, 7, 8, 3)}


def test_documents_end_with_the_end_token(folder: Path) -> None:
    data = {"train": str(folder / "text.txt"), "tokenizer": str(folder / "tokenizer.json")}
    found = prepared("lm", "lm-tiny", data, folder)
    tokens = {int(i) for batch in found.train.in_order(4, None) for i in batch.tokens.flatten()}
    assert tokens == {2, 3, 4, 5, 7}
    stream = found.train.stream.tolist()
    assert stream[:3] == [3, 2, 4] and stream[-1] == 3 and [3, 3] not in zip(stream, stream[1:])


def test_a_long_text_keeps_its_last_token(folder: Path) -> None:
    made = Tokenizer.from_file(str(folder / "tokenizer.json"))
    brought = open_tokenizer(str(folder))
    assert isinstance(brought, BroughtTokenizer) and brought.specials == brought_specials(made)
    assert [each.ids for each in brought.encoded(["a film a film", "a"], 4)] == [[2, 4, 7, 3], [2, 4, 3]]
    assert brought_specials(made) == {"pad": 0, "bos": 2, "eos": 3} and not is_own(made)
    own = train_tokenizer(["a good film"] * 9, 20, "the test has")
    assert is_own(own) and brought_specials(own) == {}


@pytest.mark.parametrize(("task", "space", "more", "says"), [
    ("classification", "encoder-small", {"vocab_size": "9"}, "vocab_size: cannot be combined with tokenizer"),
    ("classification", "encoder-small", {"tokenizer": "nowhere.json"}, "nowhere.json"),
    ("translation", "seq2seq-small", {}, "tokenizer: has no token that a decoder begins with; give an imported"),
    ("masked-lm", "masked-small", {}, "tokenizer: has no token that masks others; known: [MASK], <mask>"),
])
def test_wrong_tokenizers_are_refused(task: str, space: str, more: dict, says: str, folder: Path) -> None:
    data = {"tokenizer": str(folder), **more}
    with pytest.raises(InputError) as caught:
        prepared(task, space, data, folder)
    assert says in str(caught.value)


def test_a_space_needs_room_for_all_tokens(folder: Path) -> None:
    data = {"train": str(folder / "rows.csv"), "tokenizer": str(folder)}
    with pytest.raises(InputError, match="has token ids up to 8; the space has a vocabulary of 8"):
        prepared("classification", "encoder-small", data, folder, vocab_size=8)
