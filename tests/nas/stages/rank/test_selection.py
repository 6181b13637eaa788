import pytest

from nas.stages.rank.selection import BAND_RATIO, choose
from nas.stages.rank.statistics import BASELINES
from search_spaces import InputError, load_space

TINY = """
schema_version: 1
name: six
description: six architectures
family: lm
vocab_size: 64
context: 16
width: [16, 32]
embedding: {lookup: {rank: full}}
head: {tied: {}}
decoder:
  slots: 3
  depth: {keep: first, layers: [1, 2, 3]}
  sharing: none
  layers:
    transformer:
      mixer: {attention: {n_heads: 2, head_dim: 8, n_kv_heads: 2}}
      ffn: {ffn: {inner: 2x, activation: relu, gated: false}}
"""


@pytest.fixture(scope="module")
def chosen():
    return choose(load_space("lm-tiny"), n=11, seed=0, seq_len=32)


@pytest.fixture
def six(tmp_path):
    path = tmp_path / "six.yaml"
    path.write_text(TINY, encoding="utf-8")
    return load_space(path)


def of(group, chosen):
    return [one for one in chosen if one.group == group]


def test_all_are_distinct_and_half_are_spread(chosen):
    assert len({one.arch.key for one in chosen}) == len(chosen) == 11
    assert len(of("spread", chosen)) == 6
    costs = set(BASELINES) - {"grad_norm", "synflow"}
    assert all(set(one.baselines) == costs and one.baselines["depth"] == one.arch.depth for one in chosen)


def test_the_band_has_about_equal_macs_and_unequal_parameters(chosen):
    band = of("band", chosen)
    macs, params = [one.cost.macs for one in band], [one.cost.params for one in band]
    assert max(macs) / min(macs) <= BAND_RATIO
    assert max(params) / min(params) > 1.5


def test_the_spread_covers_the_range_in_even_steps(chosen):
    macs = [one.cost.macs for one in of("spread", chosen)]
    assert load_space("lm-tiny").largest() in [one.arch for one in chosen]
    steps = [b / a for a, b in zip(macs, macs[1:])]
    assert macs[-1] / macs[0] > 10
    assert max(steps) / min(steps) < 1.5


def test_the_seed_decides(chosen):
    space = load_space("lm-tiny")
    assert choose(space, n=11, seed=0, seq_len=32) == chosen
    assert choose(space, n=11, seed=1, seq_len=32) != chosen


def test_a_thin_band_is_not_widened_but_the_spread_takes_more(six):
    chosen = choose(six, n=6, seed=0, seq_len=16)
    assert len({one.arch.key for one in chosen}) == 6
    macs = [one.cost.macs for one in of("band", chosen)]
    assert len(macs) == 2
    assert max(macs) / min(macs) <= BAND_RATIO


def test_too_small_a_space_is_refused_with_its_size(six):
    with pytest.raises(InputError, match="six: has 6 distinct architectures, fewer than the requested 7"):
        choose(six, n=7, seed=0, seq_len=16)


def test_too_few_are_refused(six):
    with pytest.raises(InputError, match="n: 3 is not allowed; allowed: 4 or more"):
        choose(six, n=3, seed=0, seq_len=16)
