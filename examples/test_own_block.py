"""The block of own_block.py, tested like the shipped ones: pytest examples/test_own_block.py."""

from pathlib import Path

from nas.testing import BlockContract
from search_spaces import plugins

plugins.add(Path(__file__).with_name("own_block.py"))


class TestRecent(BlockContract):
    name = "recent"
