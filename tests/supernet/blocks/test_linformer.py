"""Linformer with maps that shorten nothing is full attention."""

import torch

from supernet.call import Call
from tests.supernet.blocks import block, masked_attention, tokens


def test_identity_maps_give_full_attention():
    mixer, x = block("linformer", facts={"context": 12}, n_heads=2, head_dim=8, rank=12, shared=True), tokens(12)
    mixer.shorten_k.copy_(torch.eye(12))
    expected = mixer.merged(masked_attention(*mixer.project(x), torch.ones(12, 12, dtype=torch.bool)))
    assert torch.allclose(mixer(x, Call()), expected, atol=1e-5)


def test_keys_and_values_are_sums_over_the_real_tokens():
    mixer, x = block("linformer", n_heads=2, head_dim=8, rank=5, shared=False), tokens(20)
    q, k, v = mixer.project(x)
    k = torch.einsum("rn,bhnd->bhrd", mixer.shorten_k[:, :15], k[:, :, :15])
    v = torch.einsum("rn,bhnd->bhrd", mixer.shorten_v[:, :15], v[:, :, :15])
    expected = mixer.merged(masked_attention(q, k, v, torch.ones(20, 5, dtype=torch.bool)))
    assert torch.allclose(mixer(x, Call(mask=torch.arange(20).expand(2, -1) < 15)), expected, atol=1e-5)
