"""The suite of residuals over every installed one and over one with two streams."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from torch import Tensor, nn

from nas.testing import ResidualContract, suites
from nas.testing.residuals import some, space
from search_spaces import Architecture, InputError
from search_spaces import residual as residuals
from search_spaces.residual import ResidualKind
from search_spaces.units import plan
from supernet.layers.norms import make_norm
from supernet.residuals._base import Residual, Sub
from tests import shipments


class TwoStreams(Residual):
    """Adds to one stream what the block makes of the other, by turns."""

    def __init__(self, block: nn.Module, *, width: int, norm: str) -> None:
        super().__init__(block, make_norm(norm, width))

    @staticmethod
    def enter(x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x

    def add(self, streams: tuple[Tensor, Tensor], sub: Sub) -> tuple[Tensor, Tensor]:
        first, second = streams
        return second, first + sub(self.norm(second))

    @staticmethod
    def leave(streams: tuple[Tensor, Tensor]) -> Tensor:
        return (streams[0] + streams[1]) / 2


TWO = ResidualKind("two_streams", TwoStreams, ("width", "norm"), closing_norm=lambda facts: True)
globals().update(suites(ResidualContract, *residuals.names(), TWO.name))


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(residuals.registry(), TWO.name, TWO)
    yield


def test_the_default_is_not_named() -> None:
    arch = some("lm", "plain", 1)[0]
    assert "residual" not in arch.to_dict()
    named = {**arch.to_dict(), "residual": "plain"}
    assert Architecture.from_dict(named).key == arch.key
    assert all("residual" not in dict(step.unit.facts) for step in plan(arch))


def test_placements_that_have_no_effect_are_one() -> None:
    both, alone = space("encoder", "plain", TWO.name), space("encoder", TWO.name)
    assert both.size() == 3 * alone.size()  # two placements of plain
    arch = alone.sample(random.Random(0))
    assert arch.placement == "pre" and alone.decode(alone.encode(arch)) == arch
    genes = {**both.encode(arch), "placement": "post"}
    found, used = both.read(genes)
    assert found == arch and "placement" not in used and "residual" in used
    with pytest.raises(InputError, match="placement: 'post' has no effect with the residual two_streams; write pre"):
        Architecture.from_dict({**arch.to_dict(), "placement": "post"})


def test_an_unknown_one_is_named() -> None:
    with pytest.raises(InputError, match="residual: unknown 'none'; installed: plain"):
        space("lm", "none")
    arch = some("lm", "plain", 1)[0]
    with pytest.raises(InputError, match="residual: 'none' is not allowed; allowed: plain"):
        Architecture.from_dict({**arch.to_dict(), "residual": "none"})
    with pytest.raises(InputError, match="residual: 'two_streams'; this space has 'plain'"):
        shipments.space("lm").encode(some("lm", TWO.name, 1)[0])
