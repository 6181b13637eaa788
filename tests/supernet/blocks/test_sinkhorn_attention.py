"""Sorted blocks against a loop, and the sorting against what it should be."""

import torch

from supernet.call import Call
from tests.supernet.blocks import block, tokens

SIZE = 4


def attention_to_two_blocks(mixer, x, order):
    """All tokens real: block i attends to itself and to the mean of blocks that row i of the order gives."""
    q, k, v = (each.unflatten(2, (-1, SIZE)) for each in mixer.project(x))  # (batch, heads, blocks, size, dim)
    y = torch.zeros_like(q)
    for i in range(q.shape[2]):
        keys, values = (sum(order[:, :, i, j, None, None] * each[:, :, j] for j in range(q.shape[2]))
                        for each in (k, v))
        keys, values = torch.cat([k[:, :, i], keys], dim=2), torch.cat([v[:, :, i], values], dim=2)
        y[:, :, i] = (q[:, :, i] @ keys.transpose(-2, -1) * 8**-0.5).softmax(dim=-1) @ values
    return mixer.merged(y.flatten(2, 3))


def test_a_block_attends_to_itself_and_to_what_is_sorted_to_it():
    mixer, x = block("sinkhorn_attention", n_heads=2, head_dim=8, block=SIZE, iterations=3), tokens(20)
    order = mixer.permutation(x, torch.ones(2, 1, 5, SIZE, 1))
    assert torch.allclose(mixer(x, Call()), attention_to_two_blocks(mixer, x, order), atol=1e-5)


def test_rows_and_columns_sum_to_one_and_padding_is_sorted_nowhere():
    mixer, x = block("sinkhorn_attention", n_heads=2, head_dim=8, block=SIZE, iterations=30), tokens(20)
    there = torch.ones(2, 1, 5, SIZE, 1)
    there[:, :, 3:] = 0
    order = mixer.permutation(x, there)[:, :, :3]
    assert torch.allclose(order.sum(dim=-1), torch.ones(2, 2, 3)) and order[..., 3:].max() == 0
    assert torch.allclose(order.sum(dim=-2)[..., :3], torch.ones(2, 2, 3), atol=1e-3)
    assert order.std() > 0.01
