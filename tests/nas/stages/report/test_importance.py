import random

import numpy as np
import pytest

from nas.stages.report.importance import dimension, importance

KINDS = ("attention", "conv")
GENES = {"width": (8, 16, 32), "decoder.0.mixer.kind": KINDS, "decoder.1.mixer.kind": KINDS,
         "decoder.0.ffn.inner": (1, 2), "decoder.1.ffn.inner": (1, 2)}


def trials(n, quality, seed=0):
    rng = random.Random(seed)
    params = [{name: rng.choice(values) for name, values in GENES.items()} for _ in range(n)]
    return params, [quality(row, rng) for row in params]


def test_shares_are_those_of_a_known_additive_quality():
    effect = {8: 0.0, 16: 1.0, 32: 5.0}

    def quality(row, rng):
        return effect[row["width"]] + 0.5 * (row["decoder.0.mixer.kind"] == "conv")

    params, values = trials(300, quality)
    found = importance("loss", params, values, GENES)
    widths = np.var([effect[row["width"]] for row in params]) / np.var(values)
    assert found.r2 > 0.99
    assert list(found.shares)[:2] == ["width", "decoder.mixer.kind"]
    assert found.shares["width"] == pytest.approx(widths, abs=0.03)
    assert sum(found.shares.values()) == pytest.approx(1.0, abs=0.02)
    assert found.effects["width"]["32"] - found.effects["width"]["8"] == pytest.approx(5.0, abs=0.1)
    assert found.effects["decoder.mixer.kind"]["conv"] == pytest.approx(0.25, abs=0.02)


def test_noise_is_not_explained():
    params, values = trials(200, lambda row, rng: rng.gauss(0, 1))
    found = importance("loss", params, values, GENES)
    assert found.r2 < 0.05 and max(found.shares.values()) < 0.1


def test_too_little_says_nothing():
    assert importance("loss", *trials(29, lambda row, rng: rng.random()), GENES) is None
    assert importance("loss", *trials(50, lambda row, rng: 1.0), GENES) is None
    assert importance("loss", *trials(50, lambda row, rng: float("nan")), GENES) is None


def test_genes_of_all_slots_are_one_dimension():
    assert dimension("decoder.11.lsra.mixer.ratio") == "decoder.lsra.mixer.ratio"
    assert dimension("embedding.lookup.rank") == "embedding.lookup.rank"
