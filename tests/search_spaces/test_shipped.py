"""Every shipped space keeps the promises of SearchSpace."""

from __future__ import annotations

import random

import pytest

from search_spaces import Architecture, InputError, load_space, shipped_spaces

SPACES = {name: load_space(name) for name in shipped_spaces()}


def test_the_shipped_spaces_are_these() -> None:
    assert set(SPACES) >= {"lm-tiny", "lm-small", "encoder-small", "seq2seq-small", "delight-lm", "albert", "hat-like"}


@pytest.mark.parametrize("name", SPACES)
def test_a_space_is_named_like_its_file_and_says_what_it_is(name: str) -> None:
    assert SPACES[name].name == name
    assert SPACES[name].description


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("name", SPACES)
def test_decoding_what_was_encoded_gives_the_architecture_back(name: str, part: int) -> None:
    space, rng = SPACES[name], random.Random(part)
    for _ in range(250):
        arch = space.sample(rng)
        assert space.decode(space.encode(arch)) == arch


@pytest.mark.parametrize("name", SPACES)
def test_json_gives_the_architecture_back(name: str) -> None:
    rng = random.Random(1)
    for _ in range(50):
        arch = SPACES[name].sample(rng)
        again = Architecture.from_json(arch.to_json())
        assert again == arch
        assert again.key == arch.key
        assert again.to_json() == arch.to_json()


@pytest.mark.parametrize("name", SPACES)
def test_the_extremes_are_in_the_space_and_bound_depth_and_width(name: str) -> None:
    space, rng = SPACES[name], random.Random(2)
    smallest, largest = space.smallest(), space.largest()
    assert smallest in space
    assert largest in space
    for _ in range(50):
        arch = space.sample(rng)
        assert smallest.width <= arch.width <= largest.width
        assert smallest.depth <= arch.depth <= largest.depth


@pytest.mark.parametrize("name", SPACES)
def test_no_architecture_of_another_space_is_in_it(name: str) -> None:
    for other in set(SPACES) - {name}:
        stranger = SPACES[other].smallest()
        assert stranger not in SPACES[name]
        with pytest.raises(InputError, match=f"not in space {name}"):
            SPACES[name].encode(stranger)


@pytest.mark.parametrize("name", SPACES)
def test_the_size_is_at_least_what_was_sampled(name: str) -> None:
    rng = random.Random(3)
    keys = {SPACES[name].sample(rng).key for _ in range(100)}
    assert SPACES[name].size() >= len(keys)


def test_something_that_is_no_architecture_is_in_no_space() -> None:
    assert "lm-tiny" not in SPACES["lm-tiny"]


def test_the_same_seed_gives_the_same_samples() -> None:
    space = SPACES["lm-tiny"]
    first, second = random.Random(7), random.Random(7)
    assert [space.sample(first).key for _ in range(20)] == [space.sample(second).key for _ in range(20)]
