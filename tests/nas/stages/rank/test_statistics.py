import json

import numpy as np
import pytest
from scipy.stats import kendalltau, spearmanr

from nas.core.rankings import INHERITED
from nas.stages.rank.statistics import BASELINES, PREDICTORS, assess
from tests.nas.stages.rank.tables import made_table


def test_a_perfect_predictor_has_one_and_an_inverted_one_minus_one():
    table = made_table()
    assert assess(table, 200).overall.figure(INHERITED).tau == 1
    table[INHERITED] = -table[INHERITED]
    figure = assess(table, 200).overall.figure(INHERITED)
    assert (figure.tau, figure.low, figure.high, figure.spearman) == (-1, -1, -1, pytest.approx(-1))


def test_a_random_predictor_mostly_has_an_interval_around_zero():
    figures = [assess(made_table(error=100, seed=seed), 500).overall.figure(INHERITED) for seed in range(50)]
    assert sum(figure.low < 0 < figure.high for figure in figures) >= 43
    assert abs(np.mean([figure.tau for figure in figures])) < 0.1


@pytest.mark.parametrize("name", BASELINES)
def test_more_of_a_baseline_is_expected_to_mean_less_loss(name):
    table = made_table()
    table[name] = np.arange(len(table))[::-1]
    assert assess(table, 200).overall.figure(name).tau == 1


@pytest.mark.parametrize("name", PREDICTORS)
def test_figures_are_scipys_up_to_the_sign(name):
    table = made_table(error=0.5)
    figure, sign = assess(table, 200).overall.figure(name), 1 if name == INHERITED else -1
    assert figure.tau == pytest.approx(sign * kendalltau(table[name], table["trained_loss"]).statistic)
    assert figure.spearman == pytest.approx(sign * spearmanr(table[name], table["trained_loss"]).statistic)


def test_a_perfect_predictor_beats_random_ones():
    assert all(difference.above_zero for difference in assess(made_table()).overall.differences)


def test_a_predictor_does_not_beat_itself_nor_one_as_good():
    table = made_table(error=0.3)
    table["params"] = -table[INHERITED]
    table["macs"] = -made_table(error=0.3, seed=1)[INHERITED]
    same, _, as_good, *_ = assess(table).overall.differences
    assert (same.tau, same.low, same.high, same.above_zero) == (0, 0, 0, False)
    assert as_good.low < 0 < as_good.high
    assert not as_good.above_zero


def test_the_band_is_judged_by_itself():
    table = made_table(error=0.5)
    band = table[table["group"] == "band"]
    found = assess(table, 200).band
    assert found.n == len(band) == 12
    assert found.figure(INHERITED).tau == pytest.approx(kendalltau(band[INHERITED], band["trained_loss"]).statistic)


def test_a_constant_predictor_is_undefined_and_beaten_by_nobody():
    table = made_table()
    table.loc[table["group"] == "band", "depth"] = 4
    report = assess(table, 200)
    figure, difference = report.band.figure("depth"), report.band.differences[BASELINES.index("depth")]
    assert (figure.tau, figure.low, figure.high, figure.spearman) == (None, None, None, None)
    assert (difference.tau, difference.above_zero) == (None, False)
    assert report.overall.figure("depth").tau is not None


def test_rows_without_a_finite_loss_are_left_out_and_counted():
    table = made_table(error=0.5)
    kept = assess(table.iloc[2:], 200)
    table.loc[0, "trained_loss"], table.loc[1, INHERITED] = np.nan, np.inf
    report = assess(table, 200)
    assert (report.dropped, report.overall) == (2, kept.overall)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_few_rows_make_a_report_without_nan(n):
    report = assess(made_table(noise=0.1, repeats=2).iloc[:n], 200)
    assert "NaN" not in json.dumps(report.to_dict())
    assert (report.overall.figure(INHERITED).tau is None) == (n < 2)


def test_repeats_give_a_ceiling_and_their_absence_none():
    report = assess(made_table(noise=0.2, repeats=6), 200)
    assert report.noise.repeats == 6
    assert 0 < report.overall.ceiling.perfect < 1
    without = assess(made_table().drop(columns="repeat_loss"), 200)
    assert (without.noise, without.overall.ceiling, without.band.ceiling) == (None, None, None)


def test_the_same_seed_gives_the_same_report_as_plain_data():
    table = made_table(error=0.5, noise=0.1, repeats=4)
    one, again, other = assess(table, 500), assess(table, 500), assess(table, 500, seed=1)
    assert one == again != other
    assert json.loads(json.dumps(one.to_dict()))["overall"]["figures"][0]["tau"] == one.overall.figures[0].tau


def test_the_ends_of_an_interval_do_not_hang_on_the_seed():
    table = made_table(error=0.5, noise=0.1, repeats=4)
    ends = [[(each.low, each.high) for each in assess(table, seed=seed).overall.differences] for seed in range(3)]
    assert np.ptp(np.array(ends), axis=0).max() < 0.01


def test_tables_of_earlier_versions_lack_zero_cost_predictors():
    found = assess(made_table().drop(columns=["grad_norm", "synflow"]), 200).overall
    assert [figure.name for figure in found.figures] == list(PREDICTORS[:-2])
