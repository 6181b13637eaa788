"""Statistics of the ranking report: inherited loss and size baselines.

The table has a row for each architecture: `group` ("spread" or "band"), `inherited_loss`, the baselines,
`trained_loss` and, where some were trained twice, `repeat_loss` (NaN for the others). Repeats are used for the noise
only; ranks use the first training, so that every loss is equally noisy. A row with a loss that is not finite is left
out of all figures and counted: a diverged training says more about its settings than about the architecture.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from nas.core.pareto import Floats
from nas.core.prediction_quality import tau
from nas.core.rankings import GROUP, INHERITED, REPEAT, TRAINED
from nas.core.rankings import PREDICTOR_WORDS as WORDS
from nas.stages.rank.ceiling import Ceiling, Noise, ceiling, seed_noise
from nas.stages.rank.kendall import bootstrap, interval, taus

PREDICTORS = tuple(WORDS)
BASELINES = PREDICTORS[1:]
"""Tables of earlier versions lack some of them."""
RESAMPLES = 100_000
"""With a tenth, interval ends vary by 0.005 between seeds."""


@dataclass(frozen=True)
class Figure:
    """How well one predictor ranks; positive is good, None is undefined (the predictor is constant).

    Args:
        name: a column in `PREDICTORS`.
        tau: Kendall's tau-b with the trained loss.
        low: lower end of its 95 % bootstrap interval over architectures.
        high: upper end.
        spearman: Spearman's rank correlation.
    """

    name: str
    tau: float | None
    low: float | None
    high: float | None
    spearman: float | None


@dataclass(frozen=True)
class Difference:
    """Tau of the inherited loss less that of a baseline, from the same resamples.

    Args:
        above_zero: whether the whole interval is: the supernet ranks better than the baseline.
    """

    baseline: str
    tau: float | None
    low: float | None
    high: float | None
    above_zero: bool


@dataclass(frozen=True)
class Comparison:
    """Every predictor on one set of n architectures."""

    n: int
    figures: tuple[Figure, ...]
    differences: tuple[Difference, ...]
    ceiling: Ceiling | None

    def figure(self, name: str) -> Figure:
        """The figure of a predictor."""
        return next(figure for figure in self.figures if figure.name == name)


@dataclass(frozen=True)
class RankingReport:
    """The ranking report.

    Args:
        overall: all architectures; size alone ranks these well.
        band: those of about equal multiply-adds, where size is not informative.
        noise: None if nothing was trained twice.
        dropped: rows left out because a loss is not finite.
        steps: of each training from scratch, where that is known.
        supernet_steps: of the supernet's, where that is known.
    """

    overall: Comparison
    band: Comparison
    noise: Noise | None
    dropped: int
    resamples: int
    seed: int
    steps: int | None = None
    supernet_steps: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


def assess(frame: pd.DataFrame, resamples: int = RESAMPLES, seed: int = 0) -> RankingReport:
    """The report on a table of predictors and trained losses; see the module docstring for the columns."""
    known = [name for name in PREDICTORS if name in frame]
    usable = frame[np.isfinite(frame[[*known, TRAINED]].astype(float)).all(axis=1)]
    noise = seed_noise(_column(usable, TRAINED), _column(usable, REPEAT)) if REPEAT in usable else None
    return RankingReport(
        overall=_compare(usable, noise, resamples, seed),
        band=_compare(usable[usable[GROUP] == "band"], noise, resamples, seed),
        noise=noise,
        dropped=len(frame) - len(usable),
        resamples=resamples,
        seed=seed,
    )


def _compare(frame: pd.DataFrame, noise: Noise | None, count: int, seed: int) -> Comparison:
    trained, weights = _column(frame, TRAINED), bootstrap(len(frame), count, seed)
    columns = {name: -_column(frame, name) for name in PREDICTORS if name in frame}  # less must predict a lower loss
    columns[INHERITED] *= -1
    draws = {name: taus(column, trained, weights) for name, column in columns.items()}
    figures = {name: _figure(name, column, trained, draws[name]) for name, column in columns.items()}
    differences = tuple(_difference(figures[INHERITED], figures[name], draws[INHERITED] - draws[name])
                        for name in BASELINES if name in columns)
    return Comparison(len(frame), tuple(figures.values()), differences,
                      ceiling(trained, noise, seed) if noise else None)


def _column(frame: pd.DataFrame, name: str) -> Floats:
    return frame[name].to_numpy(dtype=np.float64)


def _figure(name: str, column: Floats, trained: Floats, draws: Floats) -> Figure:
    value = tau(column, trained)
    if value is None:
        return Figure(name, None, None, None, None)
    spearman = np.corrcoef(rankdata(column), rankdata(trained))[0, 1]
    low, high = interval(draws)
    return Figure(name, value, low, high, float(spearman))


def _difference(supernet: Figure, baseline: Figure, draws: Floats) -> Difference:
    if supernet.tau is None or baseline.tau is None:
        return Difference(baseline.name, None, None, None, False)
    low, high = interval(draws)
    return Difference(baseline.name, supernet.tau - baseline.tau, low, high, low is not None and low > 0)
