"""Imported models on tasks: a new head where one is missing, their own tokenizer, an ordinary run and subnet."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from nas import api
from nas.core.run_dir import RunDir
from nas.core.subnet import Subnet
from nas.stages.train.init import fine_tuning_recipe
from search_spaces import InputError
from tests.contracts.test_importers import DECODER, GPT2, SEQ2SEQ, SMALL, T5, WORDS, imported, pretrained

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.usefixtures("here")
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
TRAINING = {"steps": 2, "batch_size": 4, "device": "cpu", "evaluate_limit": 8}


def word_tokenizer() -> Tokenizer:
    """Numbers as words, pairs with types, and the padding that some published tokenizers ask for."""
    made = Tokenizer(models.WordLevel({**{word: i for i, word in enumerate(SPECIALS)},
                                       **{str(i): i for i in range(len(SPECIALS), WORDS)}}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens(list(SPECIALS))
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    made.enable_padding(length=30)
    made.enable_truncation(30)
    return made


def model(cls: str, config: dict, out: str = "ours", **wishes: object) -> Subnet:
    """A random model of transformers, imported."""
    folder = pretrained(Path("theirs", out), cls, config)
    word_tokenizer().save(str(folder / "tokenizer.json"))
    return imported(folder, Path(out), **wishes).subnet


@pytest.fixture
def rows() -> dict[str, str]:
    """Labelled texts and pairs, the same as documents, and parallel texts."""
    texts = [" ".join(str(5 + (i * 7 + j) % 40) for j in range(2 + i % 5)) for i in range(60)]
    table = "".join(f"{text}\t{'odd' if i % 2 else 'even'}\t{texts[i - 1]}\n" for i, text in enumerate(texts))
    Path("rows.tsv").write_text(f"text\tlabel\tother\n{table}", "utf-8")
    return {"train": "rows.tsv"}


def test_a_classifier_keeps_the_pooler_and_becomes_the_stock_class(rows: dict[str, str]) -> None:
    source = model("BertModel", SMALL)
    assert source.arch.head["pooler"] is True, "on by default where the checkpoint has one"
    found = api.retrain("ours", TRAINING, task="classification", data=rows, run="own")
    before, start = source.model().state_dict(), Subnet.open("runs/own/subnets/ours")
    fresh = start.facts.made[-1].settings["new_tensors"]
    assert fresh == ["head.classes.weight", "head.classes.bias"] and found.facts.labels == ("even", "odd")
    assert all(torch.equal(before[name], tensor) for name, tensor in start.model().state_dict().items()
               if name not in fresh)
    batch = next(iter(found.prepared().train.in_order(4)))
    assert batch.tokens.shape[1] < 10 and set(batch.tokens[:, 0].tolist()) == {2}, "no padding of the file"
    (metrics,) = api.evaluate("runs/own/subnets/ours-retrained").values()
    assert metrics == pytest.approx(found.facts.metrics) and set(metrics) == {"loss", "accuracy", "macro_f1"}
    api.export(found, "huggingface", out="shipped")
    stock = transformers.BertForSequenceClassification.from_pretrained("shipped").eval()
    ids = torch.tensor([[2, 7, 9, 11, 3]])
    with torch.no_grad():
        assert (stock(ids).logits - found.model()(ids)).abs().max() < 1e-5
    assert stock.config.id2label == {0: "even", 1: "odd"} and api.predict(found, ["7 9"])[0].label in ("even", "odd")


def test_pairs_have_token_types(rows: dict[str, str]) -> None:
    model("BertModel", SMALL)
    found = api.retrain("ours", TRAINING, task="classification", data={**rows, "pair": "other"})
    assert str(found.path) == "runs/ours-classification/subnets/ours-retrained"
    batch = next(iter(found.prepared().train.in_order(4)))
    assert batch.types is not None and batch.types.shape == batch.tokens.shape
    for tokens, types, mask in zip(batch.tokens, batch.types, batch.mask):
        second = tokens.tolist().index(3) + 1
        assert types[:second].sum() == 0 and types[second:][mask[second:]].all() and tokens[mask][-1] == 3
    one, other = api.predict(found, ["7 8\t9", "7\t8 9"])
    assert one.probability != other.probability
    with pytest.raises(InputError, match="is a model for pairs of texts; separate the two by a tab"):
        api.predict(found, ["7 8 9"])


@pytest.mark.parametrize(("cls", "fresh"), [("BertForMaskedLM", 0), ("BertModel", 5)])
def test_masked_words(cls: str, fresh: int, rows: dict[str, str]) -> None:
    """With the imported head, or a new one; whole windows with the marks of the pretrained model around them."""
    model(cls, SMALL)
    found = api.retrain("ours", TRAINING, task="masked-lm", data=rows)
    assert len(Subnet.open("runs/ours-masked-lm/subnets/ours").facts.made[-1].settings["new_tensors"]) == fresh
    batch = found.prepared().train.batch(0, 4, 0)
    assert set(batch.tokens[:, 0].tolist()) == {2} and set(batch.tokens[:, -1].tolist()) == {3}
    assert 4 in batch.tokens and (batch.labels >= 0).sum(dim=1).min() >= 1
    answer = api.predict(found, ["5 [MASK] 7"])[0]
    assert len(answer.words) == 1 and answer.filled.split()[0] == "5"


@pytest.mark.parametrize(("cls", "config", "task", "data"), [
    ("GPT2LMHeadModel", {**GPT2, "eos_token_id": 50256}, "lm", {}), ("LlamaForCausalLM", DECODER, "lm", {}),
    ("T5ForConditionalGeneration", T5, "translation", {"source": "text", "target": "other"}),
    ("BartForConditionalGeneration", SEQ2SEQ, "translation", {"source": "text", "target": "other"}),
])
def test_models_with_a_head_keep_it(cls: str, config: dict, task: str, data: dict, rows: dict[str, str]) -> None:
    model(cls, config, **({"context": 32} if task == "translation" else {}))
    found = api.retrain("ours", TRAINING, task=task, data={**rows, **data})
    assert not Subnet.open(f"runs/ours-{task}/subnets/ours").facts.made[-1].settings["new_tensors"]
    assert found.facts.metrics["loss"] > 0
    if task == "translation":
        batch = next(iter(found.prepared().train.in_order(2)))
        assert set(batch.target[:, 0].tolist()) == {config["decoder_start_token_id"]}
        assert set(found.facts.metrics) == {"loss", "accuracy", "bleu", "exact_match"}


@pytest.mark.parametrize(("cls", "config", "rate"), [("GPT2LMHeadModel", GPT2, 0.1), ("LlamaForCausalLM", DECODER, 0)])
def test_dropout_is_that_of_the_family(cls: str, config: dict, rate: float, rows: dict[str, str]) -> None:
    """Llama and its relatives are trained without; supernets that start from such a model, too."""
    model(cls, {**config, "eos_token_id": 3})
    tuned = api.retrain("ours", TRAINING, task="lm", data=rows, run="own")
    assert RunDir.open("own").config().training.dropout == rate
    assert fine_tuning_recipe(str(tuned.path)).dropout == fine_tuning_recipe("ours").dropout == rate
    assert fine_tuning_recipe("own").dropout == rate


def test_the_same_command_is_done_once(rows: dict[str, str]) -> None:
    model("BertModel", SMALL)
    first = api.retrain("ours", TRAINING, task="classification", data=rows, run="own")
    weights = (first.path / "model.safetensors").stat()
    again = api.retrain("ours", TRAINING, task="classification", data=rows, run="own")
    assert (again.path / "model.safetensors").stat().st_mtime_ns == weights.st_mtime_ns
    other = api.retrain("runs/own/subnets/ours", {**TRAINING, "seed": 1}, out="other")
    assert other.facts.made[-1].settings["teacher"] == "none", "there is no supernet"
    taught = api.retrain("runs/own/subnets/ours", TRAINING, teacher=other, distill="logits,features", out="taught")
    assert taught.facts.made[-1].settings["teacher"] == "other"


@pytest.mark.parametrize(("more", "says"), [
    ({"task": "lm"}, "ours: is of the family encoder; the task lm needs lm"),
    ({"task": "vision"}, "unknown 'vision'; allowed: classification, lm, masked-lm"),
    ({"data": {"train": "rows.tsv", "tokenizer": "x"}}, "tokenizer cannot be set: the tokenizer of ours is used"),
    ({"data": {"train": "nowhere.tsv"}}, "nowhere.tsv: no such file"),
    ({"data": {"train": "rows.tsv", "pair": "nothing"}}, "has no column 'nothing'; it has: text, label, other"),
    ({"task": None}, "data: applies only to fine-tuning for another task; add task"),
    ({"training": {**TRAINING, "stebs": 1}, "data": {"train": "nowhere.tsv"}}, "did you mean steps?"),
    ({"theseus": True}, "theseus: needs a supernet; it cannot be combined with task"),
    ({"run": "own", "data": {"train": "rows.tsv", "limit": 30}},
     "runs/own: exists: data.limit is not given in the run, requested: 30; name another run with run"),
])
def test_refusals(more: dict, says: str, rows: dict[str, str]) -> None:
    model("BertModel", SMALL)
    if "run" in more:
        api.retrain("ours", TRAINING, task="classification", data=rows, run="own")
    with pytest.raises(InputError) as caught:
        api.retrain("ours", **{"training": TRAINING, "task": "classification", "data": rows, **more})
    assert says in str(caught.value)
    assert not Path("runs/ours-classification").exists()
