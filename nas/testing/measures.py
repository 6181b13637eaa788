"""What every measure promises."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from nas.core.measures import Measure, MeasureKind, PriceConditions, parse_limit, parse_measure, registry
from nas.core.pricing import Prices
from search_spaces import Architecture, load_space
from supernet import Transformer

SPACES = ("lm-tiny", "encoder-small", "seq2seq-small")


def drawn(name: str) -> list[Architecture]:
    """Architectures of a space."""
    space = load_space(name)
    return [space.sample(random.Random(seed)) for seed in range(4)]


class MeasureContract:
    """Set `name` to that of your measure."""

    name: str

    @property
    def kind(self) -> MeasureKind:
        """The measure under test."""
        return registry()[self.name]

    def ways(self) -> list[str]:
        """The ways to name it."""
        if not self.kind.on_device:
            return [self.name]
        return [f"{self.name}:cpu", *(f"{self.name}:cpu:{phase}" for phase in self.kind.phases[1:])]

    def test_names_and_values_come_back_as_they_were_written(self) -> None:
        kind = self.kind
        for text in self.ways():
            measure = parse_measure(text, {})
            assert measure.name == text and measure.kind is kind and not measure.is_quality
            assert kind.label in measure.label and measure.maximise == kind.maximise
            for value in (0.0, 1.0, 12.3456, 1234.5, 98_765_432.1):
                low, high = (parse_limit(f"{text}={kind.show_bound(value, above)}", {}).value
                             for above in (True, False))
                assert low <= value <= high and high - low <= 1
                assert kind.show(value)
        assert all(unit == unit.lower() for unit in kind.units)

    @pytest.mark.parametrize("space", SPACES)
    def test_one_and_many_prices_agree(self, space: str) -> None:
        if self.kind.on_device:
            pytest.skip("only for measures that need no profile")
        kind, archs = self.kind, drawn(space)
        at = PriceConditions(archs[0].context)
        known = [arch for arch in archs if not kind.why_not(arch)]
        prices = Prices({}, at.seq_len)
        many: Any = kind.price_many(known, at)
        assert np.asarray(many).tolist() == [kind.price(arch, at) for arch in known]
        assert all(price >= 0 for price in many)
        assert [self.name in prices.all_of(arch) for arch in archs] == [arch in known for arch in archs]
        if known:
            model = Transformer(known[0], seed=0)
            assert kind.price_model(model, at) == kind.price(known[0], at), "a model that was not compressed"
        assert prices.unmeasured_shares([Measure(self.name)], archs).max() == 0 or kind.partly_unmeasured
