"""Importance of dimensions: a ridge regression of the quality on the values of all genes, evaluated on held-out trials.

A gene's values are columns of zeros and ones, and the effect of a dimension is the sum over its genes, of all slots.
The model is additive: interactions are not modelled. Its penalty is the one with the least
leave-one-out error, in closed form. The share of a dimension is the covariance of its effect with the quality, over the
variance of the quality; both are taken on trials that the model has not seen, so overfitting does not count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nas.core.pareto import Bools, Floats
from nas.stages.report.shown import Importance

LEAST = 30
"""Minimum number of trials."""
FOLDS = 5
PENALTIES = np.logspace(-2, 4, 25)
_SLOT = re.compile(r"\.\d+(?=\.)")


def importance(metric: str, params: Sequence[Mapping[str, Any]], values: Sequence[float],
               genes: Mapping[str, Sequence[Any]]) -> Importance | None:
    """How much of a quality each dimension explains; None if there are too few trials, or all are equal.

    Args:
        params: the value of every gene, for each trial.
        values: the quality of each trial.
        genes: the values that each gene can have.
    """
    wanted = np.asarray(values, dtype=np.float64)
    if len(wanted) < LEAST or not np.isfinite(wanted).all() or wanted.std() == 0:
        return None
    columns = [(name, value) for name, choices in genes.items() for value in choices]
    ones = np.array([[float(row[name] == value) for name, value in columns] for row in params])
    groups = {name: np.array([dimension(gene) == name for gene, _ in columns])
              for name in dict.fromkeys(map(dimension, genes))}
    effects = _left_out(ones, wanted, list(groups.values()))
    centred = wanted - wanted.mean()
    shares = dict(zip(groups, (effects @ centred / (centred @ centred)).tolist()))
    r2 = 1 - float(np.sum((centred - effects.sum(axis=0)) ** 2) / (centred @ centred))
    ranked = dict(sorted(shares.items(), key=lambda item: -item[1]))
    return Importance(metric, len(wanted), r2, ranked, _effects(ridge(ones, wanted), columns, ranked))


def dimension(gene: str) -> str:
    """The dimension a gene is of: its name without the number of a slot."""
    return _SLOT.sub("", gene)


def _left_out(ones: Floats, wanted: Floats, groups: Sequence[Bools]) -> Floats:
    """The effect of every group (rows) on every trial (columns), by models that did not see the trial."""
    folds = np.random.default_rng(0).permutation(len(wanted)) % FOLDS
    predicted = np.zeros((len(groups), len(wanted)))
    for fold in range(FOLDS):
        seen, unseen = folds != fold, folds == fold
        weights, centred = ridge(ones[seen], wanted[seen]), ones[unseen] - ones[seen].mean(axis=0)
        predicted[:, unseen] = [centred[:, group] @ weights[group] for group in groups]
    return predicted


def ridge(ones: Floats, wanted: Floats) -> Floats:
    """The weights of a ridge regression with an intercept, under the penalty with the least leave-one-out error."""
    n = len(wanted)
    centred, target = ones - ones.mean(axis=0), wanted - wanted.mean()
    left, singular, right = np.linalg.svd(centred, full_matrices=False)
    turned = left.T @ target

    def error(penalty: float) -> float:
        kept = singular**2 / (singular**2 + penalty)
        leverage = 1 / n + (left**2) @ kept
        return float(np.mean(((target - left @ (kept * turned)) / (1 - leverage)) ** 2))

    best = min(PENALTIES.tolist(), key=error)
    return np.asarray(right.T @ (singular / (singular**2 + best) * turned))


def _effects(weights: Floats, columns: Sequence[tuple[str, Any]],
             names: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """The effect of each value, if all genes of its dimension have it, relative to the mean of the gene's values."""
    by_gene: dict[str, list[float]] = {}
    for (gene, _), weight in zip(columns, weights.tolist()):
        by_gene.setdefault(gene, []).append(weight)
    effects: dict[str, dict[str, float]] = {name: {} for name in names}
    for (gene, value), weight in zip(columns, weights.tolist()):
        of = effects[dimension(gene)]
        of[str(value)] = of.get(str(value), 0.0) + weight - float(np.mean(by_gene[gene]))
    return effects
