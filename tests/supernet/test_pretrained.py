"""A plain model through its folder and back."""

from __future__ import annotations

import pytest
import torch

from search_spaces.files.loader import space_from_text
from supernet import Transformer
from supernet.pretrained import save_model


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "none"])
def test_a_model_comes_back_as_it_was(tmp_path, positions):
    space = space_from_text(f"""
    {{schema_version: 1, name: toy, family: lm, vocab_size: 20, context: 8, width: 8, positions: {positions},
     embedding: {{lookup: {{}}}}, head: {{tied: {{}}}},
     decoder: {{slots: 2, layers: {{plain: {{mixer: {{attention: {{n_heads: 2}}}}, ffn: {{ffn: {{inner: 2x}}}}}}}}}}}}
    """, "toy")
    model, tokens = Transformer(space.largest(), seed=0).eval(), torch.arange(16).view(2, 8)
    save_model(model, tmp_path)
    assert torch.equal(Transformer.from_pretrained(tmp_path)(tokens), model(tokens))
