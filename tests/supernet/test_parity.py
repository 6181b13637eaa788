"""Twenty architectures of every shipped space: `make parity` runs two hundred."""

import pytest

from search_spaces import shipped_spaces
from tests.parity import check_space


@pytest.mark.parametrize("name", shipped_spaces())
def test_extracted_models_equal_the_supernet(name):
    report = check_space(name, 20, seed=1)
    assert report.architectures == 20
    assert report.worst <= 1e-5
    assert report.leaks == []
    assert report.miscounts == []
