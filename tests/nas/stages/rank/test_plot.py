import pytest

from nas.stages.rank.plot import scatter
from nas.stages.rank.statistics import assess
from search_spaces import InputError
from tests.nas.stages.rank.tables import made_table


@pytest.mark.parametrize(("ending", "starts"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_the_picture_is_written_whole(tmp_path, ending, starts):
    table = made_table(error=0.3, noise=0.1, repeats=4)
    path = tmp_path / f"ranking.{ending}"
    scatter(table, assess(table, 200), path)
    assert path.read_bytes().startswith(starts)
    assert list(tmp_path.iterdir()) == [path]


def test_undefined_figures_missing_losses_and_no_repeats_can_be_drawn(tmp_path):
    table = made_table(6).drop(columns="repeat_loss")
    table["params"], table["group"] = 7, "spread"
    table.loc[0, "trained_loss"] = float("nan")
    scatter(table, assess(table, 200), tmp_path / "a.svg")


def test_an_unknown_ending_is_refused(tmp_path):
    table = made_table()
    with pytest.raises(InputError, match=r"ends in '.pdf'; allowed: .png, .svg"):
        scatter(table, assess(table, 200), tmp_path / "a.pdf")
