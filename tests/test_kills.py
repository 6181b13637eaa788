"""Trainings that are killed and resumed end with the bits of one that was not; `python -m tests.kills` tries many."""

from tests.kills import PLACES, Kill, check, differences


def test_a_killed_training_ends_as_one_that_was_not():
    at_random, in_writing = check(kills=2, seed=0)
    assert at_random.places[0] is None and in_writing.places[0] == PLACES[0] == "half of the tensors"
    assert at_random.differences == in_writing.differences == []


def test_a_difference_would_be_seen():
    assert differences({"a": b"1", "b": b"2"}, {"a": b"1", "b": b"2"}) == []
    assert differences({"a": b"1", "b": b"2"}, {"a": b"1", "b": b"3", "c": b"4"}) == ["b", "c"]
    assert str(Kill([3], ["before the rename"], ["b"])).endswith("DIFFERENT: b")
