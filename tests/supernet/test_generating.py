"""Writing: which token is taken, where rows end, what the context allows."""

import random

import pytest
import torch
import torch.nn.functional as F

from nas.tasks.decoding import greedy
from nas.tasks.tokenizer import BOS, EOS, PAD
from search_spaces import InputError, load_space
from supernet import Transformer
from supernet.batch import IGNORE, Batch
from tests.supernet import toys
from tests.supernet.test_decoding import ids, random_model, source_of, whole


@pytest.mark.parametrize("name", ["lm-tiny", "seq2seq-small"])
def test_without_chance_it_takes_the_best_of_the_whole_each_time(name):
    space = load_space(name)
    for seed in range(3):
        arch = space.sample(random.Random(seed))
        model, (source, mask) = random_model(arch), source_of(arch)
        written = ids(arch, 4) if source is None else torch.full((3, 1), BOS)
        given = written.shape[1]
        for _ in range(12):
            best = whole(model, written, source, mask)[:, -1].argmax(dim=-1)
            written = torch.cat([written, best[:, None]], dim=1)
        if source is None:
            found = model.generate(written[:, :given], 12)
        else:
            found = model.generate(source, 12, begin=BOS, mask=mask)
        assert torch.equal(found, written[:, given:])


def test_rows_end_as_with_the_decoder_of_the_tasks():
    arch = toys.SEQ2SEQ.largest()
    model, lengths = random_model(arch), set()
    ending = F.one_hot(torch.tensor(EOS), arch.vocab_size) * 0.3
    model.head.register_forward_hook(lambda module, inputs, logits: logits + ending)
    for seed in range(6):
        source = ids(arch, 6, seed)
        with torch.no_grad():
            expected = greedy(lambda batch: model(batch.tokens, batch.target),
                              Batch(tokens=source, labels=torch.full_like(source, IGNORE)), arch.context)
        found = model.generate(source, arch.context, begin=BOS, stop=EOS)
        assert torch.equal(found.masked_fill((found == EOS).cumsum(dim=1) > 1, PAD), expected)
        lengths |= set((expected != PAD).sum(dim=1).tolist())
    assert len(lengths) > 1, "all rows end at the same place: the test shows nothing"


def test_draws_follow_the_probabilities_and_the_seed():
    arch = toys.LM.largest()
    model, prompt = random_model(arch), torch.tensor([[3, 1, 4]])
    logits = whole(model, prompt)[0, -1] * 4
    for top_k in (None, 5):
        drawn = model.generate(prompt.expand(4000, -1), 1, temperature=0.25, top_k=top_k, seed=1)[:, 0]
        kept = logits if top_k is None else logits.masked_fill(logits < logits.topk(5).values[-1], -torch.inf)
        share = drawn.bincount(minlength=arch.vocab_size) / 4000
        assert (share - kept.softmax(dim=-1)).abs().max() < 0.04
        assert share.count_nonzero() > 3 and not share[kept == -torch.inf].any()
    a, b, c = (model.generate(prompt, 5, temperature=1.0, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(a, b) and not torch.equal(a, c)
    torch.manual_seed(0)
    a, b = (model.generate(prompt, 5, temperature=1.0) for _ in range(2))
    assert not torch.equal(a, b)


def test_a_cold_draw_or_one_of_a_single_token_is_the_best():
    arch = toys.LM.largest()
    model, prompt = random_model(arch), ids(arch, 3)
    best = model.generate(prompt, 5)
    assert torch.equal(best, model.generate(prompt, 5, temperature=1e-42, seed=0))
    assert torch.equal(best, model.generate(prompt, 5, temperature=2.0, top_k=1, seed=0))
    assert model.generate(prompt, 5, temperature=2.0, top_k=99, seed=0).shape == (3, 5)


def test_writing_ends_when_every_row_has_ended():
    arch = toys.LM.largest()
    model, prompt = random_model(arch), ids(arch, 3)
    free = model.generate(prompt, 5)
    stop = int(free[0, 1])
    cut = model.generate(prompt[:1], 5, stop=stop)
    assert torch.equal(cut, free[:1, : free[0].tolist().index(stop) + 1])
    for row, other in zip(model.generate(prompt, 5, stop=stop).tolist(), free.tolist()):
        end = other.index(stop) + 1 if stop in other else len(other)
        assert row[:end] == other[:end] and set(row[end:]) <= {stop}


def test_the_context_may_be_filled_to_its_end():
    lm, translator = (Transformer(space.largest()).eval() for space in (toys.LM, toys.SEQ2SEQ))
    tokens = torch.zeros(2, 6, dtype=torch.long)
    assert lm.generate(tokens, 3).shape == (2, 3)
    assert translator.generate(tokens, 8, begin=BOS).shape == (2, 8)
    with pytest.raises(InputError, match="4 tokens cannot be generated after 6 in a context of 8; allowed: 1 to 3"):
        lm.generate(tokens, 4)
    with pytest.raises(InputError, match="9 tokens cannot be generated after 1 in a context of 8; allowed: 1 to 8"):
        translator.generate(tokens, 9, begin=BOS)
    with pytest.raises(InputError, match="0 tokens cannot be generated"):
        lm.generate(tokens, 0)


def test_wrong_settings_are_told():
    lm, translator = (Transformer(space.largest()).eval() for space in (toys.LM, toys.SEQ2SEQ))
    tokens = torch.zeros(2, 3, dtype=torch.long)
    for settings, says in (({"temperature": -1.0}, "temperature is -1.0; allowed: 0 or a positive number"),
                           ({"temperature": float("nan")}, "temperature is nan"),
                           ({"top_k": 0}, "top_k is 0; allowed: 1 or more"),
                           ({"stop": 20}, "stop is 20; allowed: 0 to 19"),
                           ({"begin": 1}, "lm needs a prompt and no start token"),
                           ({"mask": tokens == 0}, "mask and types are not allowed")):
        with pytest.raises(InputError, match=says):
            lm.generate(tokens, 2, **settings)
    with pytest.raises(InputError, match="seq2seq needs a start token for targets"):
        translator.generate(tokens, 2)
    with pytest.raises(InputError, match=r"a prompt has shape \(2, 0\)"):
        lm.generate(tokens[:, :0], 2)
    with pytest.raises(InputError, match="encoder cannot generate text"):
        Transformer(load_space("encoder-small").smallest()).generate(tokens, 2)
