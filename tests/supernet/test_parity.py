"""Twenty architectures of every shipped space, six of the large ones: `make parity` runs two hundred."""

import pytest

from nas.core.costs import count_params
from search_spaces import load_space, shipped_spaces
from tests.parity import check_space

LARGE = 20_000_000
"""Parameters above which a space counts as large; an architecture then takes up to two seconds."""


@pytest.mark.parametrize("name", shipped_spaces())
def test_extracted_models_equal_the_supernet(name):
    n = 6 if count_params(load_space(name).largest()) > LARGE else 20
    report = check_space(name, n, seed=1)
    assert report.architectures == n
    assert report.worst <= 1e-5
    assert report.leaks == []
    assert report.miscounts == []
