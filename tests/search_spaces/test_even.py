"""Genotypes that draw canonical kinds evenly."""

import random
from collections import Counter

import pytest

from search_spaces import load_space
from search_spaces.space.even import draw_even

SHIPPED = ["lm-tiny", "lm-mixed", "encoder-small", "encoder-pooled", "seq2seq-small", "hat-like"]


@pytest.mark.parametrize("end", [None, -1, 0])
@pytest.mark.parametrize("name", SHIPPED)
def test_every_draw_is_an_architecture_of_the_space(name, end):
    space, rng = load_space(name), random.Random(0)
    for _ in range(20):
        genes = draw_even(space, rng, end)
        assert genes.keys() == space.genes.keys()
        assert space.decode(genes) in space


@pytest.mark.parametrize("end", [None, -1, 0])
def test_kinds_are_drawn_evenly_at_every_slot(end):
    """Uniform genes give a convolution in a slot in one of nine cases, and never at the greatest values."""
    space, rng = load_space("lm-tiny"), random.Random(0)
    seen = [Counter() for _ in range(4)]
    for _ in range(400):
        genes = draw_even(space, rng, end) | {"decoder.depth": 4, "decoder.sharing": "none"}
        for slot, layer in enumerate(space.decode(genes).decoder):
            seen[slot][layer.mixer.kind] += 1
    for kinds in seen:
        assert kinds.keys() == {"attention", "lsra", "conv", "delight"}
        assert min(kinds.values()) > 70


def test_the_ends_have_their_dimensions_at_an_end():
    space, rng = load_space("lm-tiny"), random.Random(0)
    for _ in range(30):
        large, small = (space.decode(draw_even(space, rng, end)) for end in (-1, 0))
        assert (large.width, large.depth, small.width, small.depth) == (64, 4, 48, 1)
        assert large.embedding["rank"] == 64 and small.embedding["rank"] == 16
        assert {layer.mixer["kernel"] for layer in large.decoder if layer.mixer.kind == "conv"} <= {7}
        assert {layer.mixer["kernel"] for layer in small.decoder if layer.mixer.kind == "conv"} <= {3}


def test_the_same_seed_gives_the_same_genes():
    space = load_space("lm-mixed")
    assert draw_even(space, random.Random(5)) == draw_even(space, random.Random(5))
    assert draw_even(space, random.Random(5)) != draw_even(space, random.Random(6))
