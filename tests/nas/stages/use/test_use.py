"""Models at work: language models write, classifiers name classes, translators write as they are judged to."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from nas import tasks
from nas.core.progress import StageProgress
from nas.core.subnet import Subnet
from nas.stages.use import run as use
from nas.stages.use.request import GenerateRequest, PredictRequest
from nas.tasks.decoding import greedy, texts_of
from nas.tasks.tokenizer import EOS, encode
from nas.tasks.translation import as_read
from supernet.batch import Batch
from supernet.generation import DecodingMixin
from supernet.inference import run_model
from tests.nas.runs import nas, refused

CONTEXT = 8


def greedy_text(folder: str, prompt: str, n: int) -> use.GeneratedText:
    return use.generate(GenerateRequest(folder, prompt, n, temperature=0.0), StageProgress())


def test_a_language_model_writes_the_most_probable_tokens(subnets: dict[str, Path]) -> None:
    subnet = Subnet.open(str(subnets["lm"]))
    model, tokenizer = subnet.model(), subnet.tokenizer()
    found = greedy_text(str(subnet.path), "a", 3)
    ids = [EOS, *next(encode(tokenizer, ["a"]))]
    for _ in range(found.tokens):
        with torch.no_grad():
            ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
    assert found.text == tokenizer.decode(ids[-found.tokens:]) and found.prompt == "a"
    assert found.tokens == 3 or ids[-1] == EOS


def test_draws_repeat_with_their_seed(subnets: dict[str, Path], capsys: Any) -> None:
    command = ("generate", str(subnets["lm"]), "the", "--tokens", "6", "--temperature", "2")
    texts = [nas(capsys, *command, "--seed", str(seed))[1] for seed in (1, 1, 2, 3, 4)]
    assert texts[0] == texts[1] and len(set(texts)) > 1 and all(text.startswith("the") for text in texts)
    cold = nas(capsys, *command[:-1], "0")[1]
    assert nas(capsys, *command, "--top-k", "1")[1] == cold == nas(capsys, *command[:-1], "0")[1]
    code, out, err = nas(capsys, *command, "--json")
    assert (code, err) == (0, "") and json.loads(out)["prompt"] == "the"


def test_the_context_ends_a_text_with_a_word(subnets: dict[str, Path], capsys: Any,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    honest = DecodingMixin.generate

    def generate(self: Any, tokens: torch.Tensor, n: int, **settings: Any) -> Any:
        read.append(tokens.shape[1])
        return honest(self, tokens, n, **{**settings, "stop": None})  # no end but the context's

    monkeypatch.setattr(DecodingMixin, "generate", generate)
    folder = str(subnets["lm"])
    assert greedy_text(folder, "", 5).notes == () and read.pop() == 1
    found = greedy_text(folder, "the", 100)
    n = read.pop()
    assert found.tokens == CONTEXT + 1 - n and "the context of 8 is full" in found.notes[0]
    long = "the quick brown fox jumps over a lazy dog"
    for n, kept in ((1, 8), (3, 6), (100, 4)):
        found = greedy_text(folder, long, n)
        assert read.pop() == kept and f"only the last {kept} are used" in found.notes[0]
        assert found.tokens == min(n, CONTEXT + 1 - kept)
    code, out, err = nas(capsys, "generate", folder, long)
    assert code == 0 and out.startswith(long) and err.count("note: ") == 2


def test_a_document_ends_with_its_token(subnets: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    honest = DecodingMixin.decode

    def decode(self: Any, tokens: torch.Tensor, cache: Any) -> Any:
        logits, cache = honest(self, tokens, cache)
        if cache.position > 3:
            logits[..., EOS] = 1e9
        return logits, cache

    monkeypatch.setattr(DecodingMixin, "decode", decode)
    found = greedy_text(str(subnets["lm"]), "", 100)
    assert found.tokens == 4 and found.notes == () and "<eos>" not in found.text


def test_classes_are_those_of_the_evaluation(subnets: dict[str, Path], capsys: Any,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(subnets["classification"])
    texts = ["row 3 is good", "row 4 is bad", ""]
    code, out, err = nas(capsys, "classify", folder, *texts, "--json")
    found = json.loads(out)["texts"]
    assert (code, err) == (0, "") and [each["text"] for each in found] == texts
    subnet = Subnet.open(folder)
    prepared, model = subnet.prepared(), subnet.model()
    for each in found:
        ids = [1, *next(encode(prepared.tokenizer, [each["text"]]))]
        probabilities = model(torch.tensor([ids]))[0].softmax(dim=-1).detach()
        assert each["label"] == prepared.labels[int(probabilities.argmax())]
        assert each["probability"] == pytest.approx(float(probabilities.max()))
    monkeypatch.setattr("sys.stdin", io.StringIO("row 3 is good\nrow 4 is bad\n\n"))
    code, out, _ = nas(capsys, "classify", folder, "-")
    assert [line.split("\t")[0] for line in out.splitlines()] == [each["label"] for each in found]
    assert [line.split("\t")[2] for line in out.splitlines()] == texts
    long = "good " * 40
    assert "only the beginning is used" in nas(capsys, "classify", folder, long)[2]
    facts = subnet.facts.model_copy(update={"labels": ("one",)})
    subnet.write_facts(facts)
    assert "lists 1 classes, the model has 2" in refused(capsys, "classify", folder, "a")


def test_translations_are_those_of_the_evaluation(subnets: dict[str, Path], capsys: Any) -> None:
    folder, texts = str(subnets["translation"]), ["number 7", "number 23", "number", "", "number " * 20]
    subnet = Subnet.open(folder)
    model, tokenizer, context = subnet.model(), subnet.tokenizer(), subnet.arch.context

    def expected(text: str) -> str:
        ids = torch.tensor([as_read(next(encode(tokenizer, [text.strip()])), context)])
        with torch.no_grad():
            written = greedy(lambda batch: run_model(model, subnet.arch, batch), Batch(ids, ids), context)
        return texts_of(written, tokenizer)[0]

    results = use.predict(PredictRequest(folder, texts, "translate"), StageProgress())
    assert [each.translation for each in results] == [expected(text) for text in texts]
    code, out, err = nas(capsys, "translate", folder, *texts, "--json")
    assert code == 0 and [each["text"] for each in json.loads(out)["texts"]] == texts and "note: " in err
    assert nas(capsys, "translate", folder, texts[0])[1] == expected(texts[0]) + "\n"


def test_every_task_has_its_command(subnets: dict[str, Path], capsys: Any) -> None:
    for task, folder in subnets.items():
        fits = tasks.get(task).command
        for command in {tasks.get(name).command for name in subnets}:
            if command != fits:
                assert f"use nas {fits}" in refused(capsys, command, str(folder), "a text")
            else:
                assert nas(capsys, command, str(folder), "[b]no markup[/b] <eos> \udcff")[0] == 0
        if task == "lm":
            assert "use nas generate" in refused(capsys, "predict", str(folder), "a text")
        else:
            assert nas(capsys, "predict", str(folder), "a text") == nas(capsys, fits, str(folder), "a text")
    assert "temperature" in refused(capsys, "generate", str(subnets["lm"]), "a", "--temperature", "nan")
    assert "--tokens" in refused(capsys, "generate", str(subnets["lm"]), "a", "--tokens", "0")
