"""Which slots are kept, who shares with whom, and how blocks scale."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.space.layers import Scaling, Sharing, every_other


def test_half_of_sixteen_layers_is_every_other_one() -> None:
    assert every_other(16, 8) == (0, 2, 4, 6, 8, 10, 12, 14)


@given(st.integers(1, 60).flatmap(lambda slots: st.tuples(st.just(slots), st.integers(1, slots))))
def test_every_other_keeps_as_many_as_asked_evenly_and_the_first(case: tuple[int, int]) -> None:
    slots, kept = case
    found = every_other(slots, kept)
    gaps = {b - a for a, b in zip(found, found[1:])}
    assert len(set(found)) == kept
    assert found[0] == 0
    assert found[-1] < slots
    assert not gaps or max(gaps) - min(gaps) <= 1


@pytest.mark.parametrize(("text", "mixer", "ffn"), [
    ("none", [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]),
    ("all", [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]),
    ("attention", [0, 0, 0, 0, 0], [0, 1, 2, 3, 4]),
    ("ffn", [0, 1, 2, 3, 4], [0, 0, 0, 0, 0]),
    ("all/2", [0, 0, 2, 2, 4], [0, 0, 2, 2, 4]),
    ("attention/3", [0, 0, 0, 3, 3], [0, 1, 2, 3, 4]),
])
def test_followers_use_the_part_of_their_leader(text: str, mixer: list[int], ffn: list[int]) -> None:
    sharing = Sharing.parse(text)
    assert [sharing.leader("mixer", i) for i in range(5)] == mixer
    assert [sharing.leader("ffn", i) for i in range(5)] == ffn
    assert sharing.owners(5) == len(set(mixer)) + len(set(ffn))


@pytest.mark.parametrize("text", ["", "some", "all/", "all/1", "all/0", "all/-2", "all/x", "none/2", "all/2/2",
                                  "all/\u00b2", "all/" + "9" * 5000, 3, None])
def test_other_sharing_is_refused_with_what_is_allowed(text: object) -> None:
    with pytest.raises(ValueError, match="allowed: none, attention, ffn, all"):
        Sharing.parse(text)


def test_blocks_scale_as_published() -> None:
    blocks = [Scaling(4, 8, 2.0).at(b, 8) for b in range(8)]
    assert [block["scaled_depth"] for block in blocks] == [4, 4, 5, 5, 6, 6, 7, 8]
    assert [block["scaled_multiplier"] for block in blocks] == [2.0, 2.143, 2.286, 2.429, 2.571, 2.714, 2.857, 3.0]


@given(st.integers(1, 12), st.integers(0, 12), st.floats(0.5, 8), st.integers(1, 24))
def test_scaling_starts_at_the_least_ends_at_the_greatest_and_turns_round(
        n_min: int, more: int, multiplier: float, depth: int) -> None:
    up, down = Scaling(n_min, n_min + more, multiplier), Scaling(n_min, n_min + more, multiplier, descending=True)
    blocks = [up.at(b, depth) for b in range(depth)]
    depths = [block["scaled_depth"] for block in blocks]
    assert blocks[0] == up.first() == down.first()
    assert depths == sorted(depths)
    assert depth == 1 or depths[-1] == n_min + more
    assert [down.at(b, depth) for b in range(depth)] == blocks[::-1]


def test_equal_ends_mean_uniform_blocks() -> None:
    assert {tuple(Scaling(8, 8, 2.0).at(b, 8).values()) for b in range(8)} == {(8, 2.0)}


@pytest.mark.parametrize("text", ["4", "4-", "-8", "a-b", "0-3", "4-8-9", "4.5-8", "\u00b2-8", 48, None,
                                  "1-" + "9" * 5000])
def test_other_depths_are_refused(text: object) -> None:
    with pytest.raises(ValueError, match="N_min-N_max"):
        Scaling.parse_depths(text)


def test_depths_in_the_wrong_order_are_refused_with_the_way_out() -> None:
    with pytest.raises(ValueError, match="N_min 8 is greater than N_max 4.*order: descending"):
        Scaling.parse_depths("8-4")
