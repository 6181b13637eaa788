"""DeLighT's unit against loops over groups, and its attention against a full matrix of scores."""

import pytest
import torch
import torch.nn.functional as F

from supernet.blocks.dextra_lookup import DextraLookup
from supernet.build import fresh
from supernet.call import Call
from tests.supernet.blocks import behind, block, masked_attention, tokens


def unit(dextra, x):
    """The expand-reduce unit on one token (in_dim,): mixes parts of the input and of the last output by group."""
    def dense(layer, z):
        return F.silu(F.layer_norm(layer.linear(z), (layer.linear.out_features,), layer.norm.weight, layer.norm.bias))

    x = dense(dextra.enter, x)
    y = x[:0]
    for groups, name in zip(dextra.groups, dextra.names):
        layer, outputs = dextra.get_submodule(name), []
        for g in range(groups):
            part = torch.cat([each[len(each) // groups * g : len(each) // groups * (g + 1)] for each in (y, x)])
            outputs.append(part @ layer.weight[g] + layer.bias[g])
        shuffled = [outputs[i % groups][i // groups] for i in range(groups * layer.group_dim)]
        parts = torch.stack(shuffled).split(layer.group_dim)
        y = torch.cat([F.silu(F.layer_norm(part, part.shape, layer.norm.weight, layer.norm.bias)) for part in parts])
    return dense(dextra.leave, torch.cat([y, x]))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("depth, group_start", [(2, 2), (5, 1), (6, 2)])
def test_it_attends_to_expanded_and_reduced_tokens(causal, depth, group_start):
    mixer = block("delight", facts={"causal": causal, "width": 64}, depth=depth, multiplier=2.0 if depth > 2 else 1.0,
                  group_start=group_start)
    x = tokens(6, 64)
    h = torch.stack([torch.stack([unit(mixer.dextra, token) for token in sequence]) for sequence in x])
    q, k, v = mixer.attend.q(h), mixer.attend.k(h), mixer.attend.v(h)
    expected = mixer.attend.o(masked_attention(q, k, v, (behind(6) >= 0) | (not causal)))
    assert torch.allclose(mixer(x, Call()), expected, atol=1e-5)


@torch.no_grad()
def test_the_embedding_is_the_same_unit_on_rows_of_a_table():
    embed = fresh(DextraLookup(width=32, vocab_size=23, context=8, positions="none", sides=1, rank=16, scale=True,
                               depth=4, multiplier=2.0, group_start=2), torch.Generator().manual_seed(0))
    expected = torch.stack([unit(embed.dextra, embed.table.weight[i] * 4) for i in (3, 0, 22)])
    assert torch.allclose(embed(torch.tensor([[3, 0, 22]]))[0], expected, atol=1e-5)
