"""The plain model: what it may see, what it reports, how it starts."""

import math
import random

import pytest
import torch
import torch.nn.functional as F

from search_spaces import InputError, load_space, shipped_spaces
from search_spaces.units import plan
from supernet import Supernet, Transformer
from tests.parity import batch

LM, SEQ2SEQ, ENCODER = "lm-tiny", "seq2seq-small", "encoder-small"


def sampled(space, n=6, seed=3):
    rng = random.Random(seed)
    return [space.sample(rng) for _ in range(n)]


@pytest.mark.parametrize("arch", sampled(load_space(LM), 8))
def test_a_language_model_never_sees_the_future(arch):
    model = Transformer(arch, seed=0).eval()
    tokens = torch.randint(0, arch.vocab_size, (2, 12))
    changed = tokens.clone()
    changed[:, 7:] = (changed[:, 7:] + 1) % arch.vocab_size
    before, after = model(tokens), model(changed)
    assert torch.allclose(before[:, :7], after[:, :7], atol=1e-6)
    assert not torch.allclose(before[:, 7:], after[:, 7:], atol=1e-6)


@pytest.mark.parametrize("arch", sampled(load_space(ENCODER), 8))
def test_padding_does_not_change_a_classification(arch):
    model = Transformer(arch, seed=0).eval()
    tokens = torch.randint(0, arch.vocab_size, (2, 9))
    padded = F.pad(tokens, (0, 4), value=3)
    mask = torch.arange(13).expand(2, -1) < 9
    assert torch.allclose(model(tokens), model(padded, mask=mask), atol=1e-5)


@pytest.mark.parametrize("arch", sampled(load_space(SEQ2SEQ), 6))
def test_padding_of_source_and_target_does_not_change_a_translation(arch):
    model = Transformer(arch, seed=0).eval()
    source, target = torch.randint(0, arch.vocab_size, (2, 9)), torch.randint(0, arch.vocab_size, (2, 6))
    plain = model(source, target)
    padded = model(F.pad(source, (0, 3)), F.pad(target, (0, 2)), mask=torch.arange(12).expand(2, -1) < 9,
                   target_mask=torch.arange(8).expand(2, -1) < 6)
    assert torch.allclose(plain, padded[:, :6], atol=1e-5)


@pytest.mark.parametrize("name", [LM, SEQ2SEQ, ENCODER])
def test_outputs_on_request_are_the_same_for_supernet_and_plain_model(name):
    space = load_space(name)
    net, arch = Supernet(space).eval(), space.largest()
    from supernet import extract

    inputs, keywords = batch(arch, 0)
    names = ("logits", "features", "attention", "aux_loss")
    bound, plain = (model(*inputs, **keywords, outputs=names)
                    for model in (lambda *a, **k: net(arch, *a, **k), extract(net, arch)))
    assert set(bound) == set(names)
    assert len(bound["features"]) == len(bound["attention"]) == arch.depth
    for ours, theirs in zip(bound["features"], plain["features"]):
        assert torch.equal(ours, theirs)
    maps = [(a, b) for mine, other in zip(bound["attention"], plain["attention"]) for a, b in zip(mine, other)]
    assert maps and all(torch.equal(a, b) for a, b in maps)
    assert all(torch.allclose(a.sum(-1), torch.ones_like(a.sum(-1)), atol=1e-5) for a, _ in maps)
    assert torch.allclose(bound["logits"], net(arch, *inputs, **keywords), atol=1e-5)
    assert bound["aux_loss"] == 0


@pytest.mark.parametrize("name", shipped_spaces())
def test_every_architecture_starts_near_the_uniform_loss(name):
    space = load_space(name)
    net = Supernet(space).eval()
    for arch in (space.smallest(), space.largest(), *sampled(space, 2)):
        inputs, keywords = batch(arch, 0)
        with torch.no_grad():
            logits = net(arch, *inputs, **keywords)
        expected_loss = (logits.logsumexp(-1) - logits.mean(-1)).mean()  # over uniformly drawn targets
        assert 0 <= expected_loss - math.log(logits.shape[-1]) + 1e-6 < 0.25


@pytest.mark.parametrize("name", [LM, SEQ2SEQ])
def test_asking_for_attention_changes_no_logit_even_where_a_token_sees_nothing(name):
    space = load_space(name)
    arch = space.largest()
    model = Transformer(arch, seed=0).eval()
    inputs, _ = batch(arch, 0)
    mask = torch.ones(2, 10, dtype=torch.bool)
    mask[0, :4], mask[1] = False, False
    assert torch.allclose(model(*inputs, mask=mask),
                          model(*inputs, mask=mask, outputs=("logits", "attention"))["logits"], atol=1e-5)


def test_activation_checkpointing_changes_nothing_but_memory():
    space = load_space(LM)
    arch = space.largest()
    for make in (lambda: Supernet(space), lambda: Transformer(arch, seed=0)):
        results = []
        for checkpointing in (False, True):
            model = make()
            model.checkpointing = checkpointing
            call = (lambda t, **k: model(arch, t, **k)) if isinstance(model, Supernet) else model  # noqa: B023
            got = call(torch.arange(20).view(2, 10), outputs=("logits", "attention"))
            got["logits"].square().mean().backward()
            results.append((got["logits"], len(got["attention"]),
                            {n: p.grad for n, p in model.named_parameters() if p.grad is not None}))
        (a, n, grads), (b, m, others) = results
        assert torch.equal(a, b) and n == m == arch.depth and grads.keys() == others.keys()
        assert all(torch.allclose(grads[name], others[name]) for name in grads)


def test_shared_layers_are_one_module_and_one_set_of_parameters():
    space = load_space("albert")
    arch = next(a for a in sampled(space, 200) if len({layer.mixer_slot for layer in a.encoder}) == 1 and a.depth > 2)
    with torch.device("meta"):
        model = Transformer(arch)
    paths = {step.path for step in plan(arch) if step.unit.role == "mixer"}
    assert len(paths) == 1
    assert len([n for n, _ in model.named_parameters() if "mixer" in n and n.endswith("q.weight")]) == 1


def test_the_same_seed_gives_the_same_weights():
    arch = load_space(LM).largest()
    a, b, c = (Transformer(arch, seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not all(torch.equal(a[name], c[name]) for name in a)


def test_wrong_inputs_are_told():
    lm, translator = Transformer(load_space(LM).smallest()), Transformer(load_space(SEQ2SEQ).smallest())
    tokens = torch.zeros(1, 129, dtype=torch.long)
    with pytest.raises(InputError, match="129 tokens is longer than the context 128"):
        lm(tokens)
    with pytest.raises(InputError, match="takes a source and a target"):
        translator(tokens[:, :4])
    with pytest.raises(InputError, match="takes one sequence"):
        lm(tokens[:, :4], tokens[:, :4])
    with pytest.raises(InputError, match="n_types 0"):
        lm(tokens[:, :4], types=tokens[:, :4])
    with pytest.raises(InputError, match="no target to mask"):
        lm(tokens[:, :4], target_mask=tokens[:, :4] == 0)
    with pytest.raises(InputError, match="mask has type torch.int64; allowed: bool"):
        lm(tokens[:, :4], mask=tokens[:, :4])
    with pytest.raises(InputError, match="unknown 'logit'"):
        lm(tokens[:, :4], outputs=("logit",))
