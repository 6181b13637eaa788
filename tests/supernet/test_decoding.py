"""Reading and writing token by token: the same logits as the whole forward pass, each token read once."""

import random

import pytest
import torch
from torch import nn

from search_spaces import InputError, load_space, shipped_spaces
from search_spaces import registry as kinds
from search_spaces.files.loader import space_from_text
from search_spaces.kind import Kind
from supernet import Transformer, extract
from tests.parity import randomised
from tests.supernet import toys

PIECES = (5, 1, 1, 3, 1, 1)
WRITING = [name for name in shipped_spaces() if load_space(name).family != "encoder"]
EVERY_MIXER = """
{{schema_version: 1, name: mixers, family: lm, vocab_size: 30, context: 16, n_types: 2, width: 16,
 positions: {positions}, placement: {placement}, head: {{tied: {{}}}},
 embedding: {{lookup: {{rank: [8, full], positions_at: [width, rank]}}}},
 decoder: {{slots: 4, sharing: [none, all, all/2], layers: {{one: {{mixer: {{
   attention: {{n_heads: 4, head_dim: 4, n_kv_heads: [1, 2, 4]}},
   conv: {{kernel: [1, 3, 7], conv: [light, dynamic], glu: [false, true]}},
   lsra: {{ratio: 0.5, n_heads: 2, kernel: [3, 7], conv: [light, dynamic], glu: [false, true]}}}},
   ffn: {{ffn: {{inner: 2x, gated: [false, true]}}}}}}}}}}}}
"""


def ids(arch, n, seed=0):
    return torch.randint(0, arch.vocab_size, (3, n), generator=torch.Generator().manual_seed(seed))


def random_model(arch, dtype=torch.float32):
    """A plain model whose norms, biases and kernels are random too."""
    model, generator = Transformer(arch, seed=0).eval(), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.add_(torch.randn(tensor.shape, generator=generator) * 0.05)
    return model.to(dtype)


def source_of(arch):
    """A padded source with its mask, or nothing for a language model."""
    if arch.family == "lm":
        return None, None
    return ids(arch, 9, seed=2), torch.arange(9).expand(3, -1) < torch.tensor([[9], [4], [7]])


@torch.no_grad()
def whole(model, tokens, source=None, mask=None):
    return model(tokens) if source is None else model(source, tokens, mask=mask)


@torch.no_grad()
def in_pieces(model, tokens, pieces, source=None, mask=None):
    cache = model.start(len(tokens)) if source is None else model.start(source, mask=mask)
    found = []
    for piece in tokens.split(pieces, dim=1):
        logits, cache = model.decode(piece, cache)
        found.append(logits)
    assert cache.position == tokens.shape[1]
    return torch.cat(found, dim=1)


@pytest.mark.parametrize("name", WRITING)
def test_pieces_give_the_logits_of_the_whole(name):
    space, rng = load_space(name), random.Random(0)
    for arch in (space.smallest(), *(space.sample(rng) for _ in range(2))):
        model, tokens, (source, mask) = random_model(arch), ids(arch, sum(PIECES)), source_of(arch)
        expected = whole(model, tokens, source, mask)
        for pieces in (PIECES, 1):
            assert torch.allclose(in_pieces(model, tokens, pieces, source, mask), expected, atol=1e-4)


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "none"])
def test_every_mixer_goes_on_wherever_positions_and_norms_stand(positions, placement):
    space = space_from_text(EVERY_MIXER.format(positions=positions, placement=placement), "mixers")
    rng = random.Random(0)
    for arch in (space.sample(rng) for _ in range(12)):
        model, tokens = random_model(arch, torch.float64), ids(arch, sum(PIECES))
        assert torch.allclose(in_pieces(model, tokens, PIECES), whole(model, tokens), atol=1e-9)


def test_layers_that_share_weights_remember_for_themselves():
    arch = toys.LM.decode(toys.LM.encode(toys.LM.largest()) | {"decoder.sharing": "all", "decoder.depth": 3})
    assert len({layer.mixer_slot for layer in arch.decoder}) == 1
    model, tokens = random_model(arch), ids(arch, 8)
    assert torch.allclose(in_pieces(model, tokens, 1), whole(model, tokens), atol=1e-5)
    _, cache = model.decode(tokens, model.start(3))
    mixers = cache.states[::2]
    assert len(cache.states) == 6 and not any(torch.equal(mixers[0][0], later[0]) for later in mixers[1:])


@pytest.mark.parametrize("space", [toys.LM, toys.SEQ2SEQ], ids=["lm", "seq2seq"])
def test_a_supernet_writes_what_the_extracted_model_writes(space):
    net, rng = randomised(space), random.Random(0)
    for arch in (space.sample(rng) for _ in range(6)):
        tokens, (source, mask) = ids(arch, 8), source_of(arch)
        source, mask = (None, None) if source is None else (source[:, :8], mask[:, :8])
        assert torch.equal(in_pieces(net.decoder(arch), tokens, (3, 1, 4), source, mask),
                           in_pieces(extract(net, arch), tokens, (3, 1, 4), source, mask))


def test_a_cache_can_be_used_again():
    arch = load_space("lm-tiny").largest()
    model, tokens = random_model(arch), ids(arch, 8)
    with torch.no_grad():
        _, cache = model.decode(tokens[:, :5], model.start(3))
        first, _ = model.decode(tokens[:, 5:], cache)
        model.decode(tokens[:, :2], cache)
        again, _ = model.decode(tokens[:, 5:], cache)
    assert torch.equal(first, again) and cache.position == 5


def test_a_cache_holds_the_type_of_the_weights_and_passes_on_gradients():
    arch = toys.LM.largest()
    model = random_model(arch, torch.bfloat16)
    assert {tensor.dtype for state in model.start(3).states for tensor in state} == {torch.bfloat16}
    model, tokens = random_model(arch, torch.float64), ids(arch, 8)
    logits, cache = model.decode(tokens[:, :3], model.start(3))
    rest, _ = model.decode(tokens[:, 3:], cache)
    torch.cat([logits, rest], dim=1).square().sum().backward()
    pieces = [tensor.grad.clone() for tensor in model.parameters()]
    model.zero_grad()
    model(tokens).square().sum().backward()
    assert all(torch.allclose(tensor.grad, piece) for tensor, piece in zip(model.parameters(), pieces))


@pytest.mark.parametrize("part", ["mixer", "embedding"])
def test_a_block_that_cannot_go_on_is_named(part, monkeypatch):
    class Running(nn.Module):
        def __init__(self, *, width):
            super().__init__()

        def forward(self, x, call):
            return x.cumsum(dim=1)

    class Table(nn.Module):
        def __init__(self, *, width, vocab_size):
            super().__init__()
            self.table = nn.Embedding(vocab_size, width)

        def forward(self, tokens, types, target):
            return self.table(tokens)

    monkeypatch.setitem(kinds.registry(), "running", Kind("running", "mixer", Running, facts=("width",)))
    monkeypatch.setitem(kinds.registry(), "bare", Kind("bare", "embedding", Table, facts=("width", "vocab_size")))
    mixer, embedding = ("running: {}", "lookup") if part == "mixer" else ("attention: {n_heads: 2}", "bare")
    space = space_from_text(f"""
    {{schema_version: 1, name: theirs, family: lm, vocab_size: 30, context: 16, width: 8,
      embedding: {{{embedding}: {{}}}}, head: {{linear: {{}}}},
      decoder: {{slots: 1, layers: {{one: {{mixer: {{{mixer}}}, ffn: {{ffn: {{inner: 1x}}}}}}}}}}}}
    """, "theirs")
    model = Transformer(space.largest()).eval()
    assert model(torch.zeros(1, 4, dtype=torch.long)).isfinite().all()
    says = "kind running.*no state_shapes" if part == "mixer" else "embedding bare.*no position"
    with pytest.raises(InputError, match=says):
        model.generate(torch.zeros(1, 4, dtype=torch.long), 2)


def test_what_cannot_be_read_is_told():
    lm, translator = (Transformer(space.largest()) for space in (toys.LM, toys.SEQ2SEQ))
    tokens = torch.zeros(2, 6, dtype=torch.long)
    with pytest.raises(InputError, match="encoder cannot generate text; allowed: lm, seq2seq"):
        Transformer(load_space("encoder-small").smallest()).start(1)
    with pytest.raises(InputError, match="lm needs the number of sequences"):
        lm.start(tokens)
    with pytest.raises(InputError, match="mask and types are not allowed"):
        lm.start(2, mask=tokens == 0)
    with pytest.raises(InputError, match="seq2seq needs the token ids"):
        translator.start(2)
    with pytest.raises(InputError, match="source of 9 tokens is longer than the context 8"):
        translator.start(torch.zeros(2, 9, dtype=torch.long))
    with pytest.raises(InputError, match=r"mask is torch.int64 .*allowed: bool of shape \(2, 6\)"):
        translator.start(tokens, mask=tokens)
    with pytest.raises(InputError, match="n_types 0"):
        translator.start(tokens, types=tokens)
    _, cache = lm.decode(tokens, lm.start(2))
    with pytest.raises(InputError, match="3 tokens after 6 exceed the context 8; at most 2 are allowed"):
        lm.decode(tokens[:, :3], cache)
    with pytest.raises(InputError, match="1 sequences of tokens do not match a cache of 2"):
        lm.decode(tokens[:1, :1], cache)
    with pytest.raises(InputError, match=r"the input has shape \(6,\)"):
        lm.decode(tokens[0], cache)
