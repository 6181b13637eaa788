"""How tensors start and lie in the store: buffers, scalars, whole numbers, segments."""

import pytest
import torch
from torch import nn

from search_spaces import InputError
from search_spaces import registry as kinds
from search_spaces.files.loader import space_from_text
from search_spaces.kind import Kind
from supernet import Supernet, Transformer, extract
from supernet.layout import Layout

TOKENS = torch.arange(12).view(2, 6)


class Odd(nn.Module):
    """A random buffer, a permutation and a scalar."""

    def __init__(self, *, width):
        super().__init__()
        self.register_buffer("noise", torch.empty(width, width))
        self.register_buffer("steps", torch.zeros(3, dtype=torch.long))
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, x, call):
        return x @ self.noise * self.scale + self.steps.sum()

    def layouts(self):
        return {"scale": Layout(init="ones"), "steps": Layout(init="ones")}


class Silent(nn.Module):
    """A tensor of which nothing says how it starts."""

    def __init__(self, *, width):
        super().__init__()
        self.alpha = nn.Parameter(torch.empty(width))

    def forward(self, x, call):
        return x * self.alpha


def space_with(monkeypatch, module):
    monkeypatch.setitem(kinds.registry(), "odd", Kind("odd", "mixer", module, facts=("width",)))
    return space_from_text("""
    {schema_version: 1, name: odd, family: lm, vocab_size: 20, context: 8, width: [8, 16], embedding: {lookup: {}},
     head: {tied: {}}, decoder: {slots: 1, layers: {one: {mixer: {odd: {}}, ffn: {ffn: {inner: 1x}}}}}}
    """, "odd")


def test_buffers_and_scalars_start_alike_and_are_sliced(monkeypatch):
    space = space_with(monkeypatch, Odd)
    net = Supernet(space).eval()
    for arch in (space.smallest(), space.largest()):
        assert torch.equal(net(arch, TOKENS), extract(net, arch)(TOKENS))
        first, second = (Transformer(arch, seed=3) for _ in range(2))
        for module in (first, extract(net, arch)):
            block = module.get_submodule("decoder.0.mixer.block")
            assert block.steps.dtype == torch.long and block.steps.tolist() == [1, 1, 1]
            assert 0.1 < block.noise.std() * arch.width**0.5 < 2
            assert block.scale == 1
        assert all(torch.equal(a, b) for a, b in zip(first.state_dict().values(), second.state_dict().values()))


def test_a_tensor_that_cannot_tell_how_it_starts_is_an_error(monkeypatch):
    space = space_with(monkeypatch, Silent)
    with pytest.raises(InputError, match=r"alpha: no initialisation for this tensor of shape \(8,\)"):
        Transformer(space.smallest())


def test_the_plain_model_and_the_store_start_with_the_same_spread():
    space = space_from_text("""
    {schema_version: 1, name: wide, family: lm, vocab_size: 20, context: 8, width: 256, embedding: {lookup: {}},
     head: {tied: {}}, decoder: {slots: 1, layers: {one: {mixer: {delight: {depth: 6, multiplier: 2}},
                                                          ffn: {ffn: {inner: 1x}}}}}}
    """, "wide")
    plain = Transformer(space.largest(), seed=0).state_dict()
    stored = extract(Supernet(space), space.largest()).state_dict()
    for name, tensor in plain.items():
        if tensor.dim() > 1 and tensor.std() > 0:
            assert tensor.std() / stored[name].std() == pytest.approx(1, abs=0.15), name


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_a_model_built_without_storage_can_run_and_be_filled(positions):
    space = space_from_text(f"""
    {{schema_version: 1, name: late, family: lm, vocab_size: 20, context: 8, width: 16, positions: {positions},
     embedding: {{lookup: {{}}}}, head: {{tied: {{}}}},
     decoder: {{slots: 1, layers: {{one: {{mixer: {{attention: {{n_heads: 2}}}}, ffn: {{ffn: {{inner: 1x}}}}}}}}}}}}
    """, "late")
    arch = space.largest()
    with torch.device("meta"):
        model = Transformer(arch).eval()
        assert model(TOKENS.to("meta")).shape == (2, 6, 20)
    ready = Transformer(arch, seed=0).eval()
    model.to_empty(device="cpu").load_state_dict(ready.state_dict())
    assert torch.equal(model(TOKENS), ready(TOKENS))


def test_a_narrow_dextra_unit_keeps_a_channel():
    space = space_from_text("""
    {schema_version: 1, name: thin, family: lm, vocab_size: 20, context: 8, width: 64, embedding: {lookup: {}},
     head: {tied: {}}, decoder: {slots: 1, layers: {one: {mixer: {delight: {depth: [3, 5], multiplier: [0.01, 0.5]}},
                                                          ffn: {ffn: {inner: 1x}}}}}}
    """, "thin")
    model = extract(Supernet(space), space.smallest())
    assert all(tensor.numel() > 0 for tensor in model.parameters())
