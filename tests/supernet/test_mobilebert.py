"""MobileBERT's layer, written out."""

import pytest
import torch
import torch.nn.functional as F

from supernet.blocks.mobilebert import MobileBertLayer
from supernet.blocks.stacked_ffn import StackedFeedForward
from supernet.build import fresh
from supernet.call import Call
from supernet.layout import entries


def randomised(made):
    torch.manual_seed(0)
    fresh(made)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return made.eval()


def stacked(stack, x):
    for ffn, norm in zip(stack.ffns, stack.norms):
        x = (x + ffn.down(F.relu(ffn.up(x)))) * norm.weight + norm.bias  # NoNorm
    return x


def narrowed(narrow, x):
    return narrow.linear(x) * narrow.norm.weight + narrow.norm.bias


@torch.no_grad()
@pytest.mark.parametrize("source", ["input", "shared", "bottleneck"])
def test_a_whole_layer(source):
    made = randomised(MobileBertLayer(width=16, causal=False, positions="none", context=8, norm="none", bias=True,
                                      n_heads=2, source=source, bottleneck=8, inner=12, stack=3, activation="relu"))
    x = torch.randn(2, 6, 16)
    narrow = narrowed(made.enter, x)
    keys = {"input": x, "bottleneck": narrow}[source] if source != "shared" else narrowed(made.keys, x)
    values = narrow if source == "bottleneck" else x
    heads = []
    for head in (slice(0, 4), slice(4, 8)):
        q, k = made.attend.q(keys)[..., head], made.attend.k(keys)[..., head]
        heads.append((q @ k.transpose(1, 2) / 2).softmax(-1) @ made.attend.v(values)[..., head])
    attended = narrow + made.attend.o(torch.cat(heads, dim=-1))
    expected = made.leave(stacked(made.stack, attended * made.norm.weight + made.norm.bias))
    assert torch.allclose(made(x, Call()), expected, atol=1e-5)


@torch.no_grad()
def test_stacked_feed_forwards():
    made = randomised(StackedFeedForward(width=16, norm="none", bias=True, bottleneck=8, inner=12, stack=3,
                                         activation="relu"))
    x = torch.randn(2, 6, 16)
    assert torch.allclose(made(x, Call()), made.leave(stacked(made.stack, narrowed(made.enter, x))), atol=1e-5)


def test_maps_of_other_inputs_are_stored_apart():
    banks = set()
    for source in ("input", "shared", "bottleneck"):
        made = MobileBertLayer(width=16, causal=False, positions="none", context=8, norm="none", bias=True, n_heads=2,
                               source=source, bottleneck=8, inner=12, stack=1, activation="relu")
        banks |= {piece.name for entry in entries(made) for piece in entry.pieces if entry.name == "attend.q.weight"}
    assert banks == {"attend.q.weight@input", "attend.q.weight@shared", "attend.q.weight@bottleneck"}
