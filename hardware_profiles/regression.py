"""Regression of whole-model latencies on few measurements, for devices that cannot measure single units.

A sum of products of the features, with non-negative coefficients, models effects such as depth times width; a Gaussian
process models the residual of the log latency. Both down-weight outliers as if the noise had a Student distribution: a
device's first minutes, or another program on it, spoil whole rows. Products of up to zero, one, two and three features
are fitted, and averaged by their leave-one-out errors.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from scipy.optimize import lsq_linear, minimize, nnls
from scipy.stats import rankdata

from hardware_profiles.gaussian_process import Posterior
from hardware_profiles.plausibility import (
    Floats,
    check_dependence,
    check_features,
    check_latencies,
    check_weights,
    contradictions,
)
from search_spaces.errors import Fault, InputError

WHERE = "whole-model latencies"
MOST_FACTORS = 3
"""Maximum number of factors of a product: the cost of feed-forwards is depth x width x inner width."""
MOST_MULTIPLIED = 8
"""Maximum number of features that are multiplied: those with the highest rank correlation with the latency."""
_FREEDOM = 2.0
"""Degrees of freedom of the noise (Student's t): with fewer, outliers count less."""
_SHARPNESS, _LEAST_SHARE = 8, 0.05
"""Exponent of the held-out error in the weights of members, and the weight below which a member is dropped."""
_CANDIDATES = 40
"""Maximum number of terms in leave-one-out fits."""
_RELEVANCE = (-3.0, 2.0)
"""Prior mean and spread of the logarithm of a feature's squared inverse length scale: most are small."""
_LEAST_VARIANCE = 1e-9
"""Added to the noise: rows of equal features keep the covariance invertible."""
_ROUNDS = (40, 8, 8, 8)
"""Steps of the optimiser between new weights of the rows."""

Terms = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class _Process:
    """A Gaussian process: Matern 5/2 and linear, a length scale for each input, noise for each row."""

    theta: Floats  # log squared inverse length scales, then log standard deviations of bends, slopes and noise
    inputs: Floats
    target: Floats
    noise: Floats  # variances

    @cached_property
    def posterior(self) -> Posterior:
        bends, _, slopes = _covariances(self.theta, self.inputs, self.inputs)
        return Posterior(bends + slopes + _level(self.target), self.noise + _LEAST_VARIANCE)

    def at(self, points: Floats) -> tuple[Floats, Floats]:
        """Mean and variance at points (m, p), without noise."""
        bends, _, slopes = _covariances(self.theta, points, self.inputs)
        cross = bends + slopes + _level(self.target)
        own = math.exp(2 * self.theta[-3]) + math.exp(2 * self.theta[-2]) * points**2 @ np.exp(self.theta[:-3])
        variance = self.posterior.variance(own + _level(self.target), cross)
        return cross @ self.posterior.solve(self.target), np.maximum(variance, 0.0)

    def left_out(self) -> tuple[Floats, Floats]:
        """Mean and variance at each row, without noise, from the other rows."""
        mean, variance = self.posterior.left_out(self.target)
        return mean, np.maximum(variance - self.noise, 0.0)


class Member(BaseModel):
    """One sum of products and the Gaussian process of its residual."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    share: float = Field(gt=0, le=1)
    terms: Terms = Field(min_length=1)
    coefs: tuple[float, ...]
    theta: tuple[float, ...]
    target: tuple[float, ...]
    noise: tuple[float, ...]


class Regressor(BaseModel):
    """Predicts milliseconds from features.

    `error` is the mean relative error of rows left out one by one, 0.05 for 5 %. Hyper-parameters and shares have seen
    all rows, so it is a little low: by a tenth with 80 rows, by up to a half with 10.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    schema_version: Literal[1]
    names: tuple[str, ...]
    error: float = Field(ge=0)
    spread: float = Field(ge=0)
    calibration: float = Field(gt=0)
    least_ms: float = Field(gt=0)
    features: tuple[tuple[float, ...], ...]
    members: tuple[Member, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _fits_together(self) -> Regressor:
        n, p = len(self.features), len(self.names)
        if n < 2 or any(len(row) != p or min(row, default=0) < 0 for row in self.features):
            raise ValueError(f"features must be rows of {p} numbers that are not negative, one for each name")
        if abs(sum(member.share for member in self.members) - 1) > 1e-6:
            raise ValueError("the shares of the members must sum to 1")
        n_varying = int(_varies(self._table).sum())
        for member in self.members:
            if not {len(member.target), len(member.noise)} == {n} or min(member.noise) <= 0:
                raise ValueError(f"target and noise of a member must be {n} numbers, the noise above 0")
            if len(member.theta) != n_varying + 3 or max(map(abs, member.theta)) > 20:
                raise ValueError(f"theta of a member must be {n_varying + 3} numbers between -20 and 20")
            if len(member.coefs) != len(member.terms) or min(member.coefs, default=0) < 0:
                raise ValueError("coefs of a member must be numbers that are not negative, one for each term")
            if not all(0 <= factor < p for term in member.terms for factor in term):
                raise ValueError(f"terms of a member must be lists of feature numbers, from 0 to {p - 1}")
        return self

    def predict(self, features: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Milliseconds and the standard deviation of a measurement, both (m,), for features (m, p).

        The deviation grows with the distance from the measured rows. Raises InputError for another number of columns,
        and for values that are negative or not finite.
        """
        table = check_features(WHERE, self.names, features)
        points, products = _inputs(self._table, table), table / _scale(self._table)
        sums = [_products(member.terms, products) @ np.array(member.coefs) for member in self.members]
        rests, variances = zip(*(process.at(points) for process in self._processes))
        logs = np.log(np.maximum(sums, self.least_ms)) + np.clip(rests, -20, 20)
        middle, deviation = _mixed(self._shares, logs, np.array(variances) + self._noises)
        ms = np.exp(middle)
        return ms, ms * (self.calibration * deviation + self.spread * _outside(self._table, table))

    def to_dict(self) -> dict[str, Any]:
        """Data for JSON."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Regressor:
        """The inverse of `to_dict`. Raises InputError if the data are damaged."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            faults = [(".".join(map(str, item["loc"])), item["msg"].removeprefix("Value error, "))
                      for item in error.errors()]
            raise InputError("stored regressor", [Fault(*fault) for fault in faults]) from None

    @cached_property
    def _table(self) -> Floats:
        return np.array(self.features, dtype=np.float64)

    @cached_property
    def _processes(self) -> list[_Process]:
        inputs = _inputs(self._table, self._table)
        return [_Process(np.array(member.theta), inputs, np.array(member.target), np.array(member.noise))
                for member in self.members]

    @cached_property
    def _shares(self) -> Floats:
        return np.array([[member.share] for member in self.members])

    @cached_property
    def _noises(self) -> Floats:
        return np.array([[math.exp(2 * member.theta[-1])] for member in self.members])


def fit(
    names: Sequence[str], features: npt.ArrayLike, ms: npt.ArrayLike, weights: npt.ArrayLike | None = None
) -> Regressor:
    """Learns latencies from measured rows.

    Args:
        names: of the features, p of them.
        features: (n, p), finite and not negative; n is 8 or more.
        ms: (n,) measured latencies.
        weights: (n,) how much each row counts, in proportion to one over its variance; equal if left out.

    Raises InputError for implausible measurements, or ones that do not depend on the features. Warns if rows of
    equal features contradict each other.
    """
    target = check_latencies(WHERE, ms)
    table = check_features(WHERE, names, features)
    if len(table) != len(target):
        raise InputError(WHERE, f"{len(table)} rows of features do not match {len(target)} latencies")
    counts = check_weights(WHERE, weights, len(target))
    if not _varies(table).any():
        raise InputError(WHERE, "every feature has the same value in all rows, so nothing can be learned; measure "
                                "other architectures")
    check_dependence(WHERE, table, target)
    members = [_member(table, target, counts, factors) for factors in range(MOST_FACTORS + 1)]
    regressor = _averaged(tuple(names), table, target, counts, members)
    guess = float(np.average(np.abs(np.median(target) / target - 1), weights=counts))
    if regressor.error >= guess:
        raise InputError(WHERE, f"the latency does not depend on the architecture: the error on held-out rows is "
                                f"{100 * regressor.error:.1f} %, that of a constant prediction {100 * guess:.1f} %")
    for low, high in contradictions(table, target, max(0.1, 5 * regressor.error)):
        warnings.warn(f"rows {low + 1} and {high + 1} have equal features, but {target[low]:g} and {target[high]:g} ms",
                      stacklevel=2)
    return regressor


@dataclass(frozen=True)
class _Fitted:
    """A member without its weight, with its leave-one-out predictions."""

    terms: Terms
    coefs: Floats
    process: _Process
    left_out: Floats  # logarithms of ms
    variance: Floats


def _member(table: Floats, ms: Floats, counts: Floats, factors: int) -> _Fitted:
    products = table / _scale(table)
    terms = _terms(products, ms, factors)
    design = _products(terms, products)
    coefs, left_out, believed, noise = _sum_of_products(design, ms, counts)
    process = _process(_inputs(table, table), np.log(ms / left_out), counts, believed, noise)
    rest, variance = process.left_out()
    used = coefs > 0
    kept = tuple(term for term, use in zip(terms, used) if use)
    return _Fitted(kept, coefs[used], process, np.log(left_out) + rest, variance + math.exp(2 * process.theta[-1]))


def _averaged(
    names: tuple[str, ...], table: Floats, ms: Floats, counts: Floats, candidates: Sequence[_Fitted]
) -> Regressor:
    """Members weighted by their leave-one-out errors, with deviations that contain two thirds of the left-out rows."""
    errors = np.array([np.average(np.abs(np.exp(one.left_out) / ms - 1), weights=counts) for one in candidates]) + 1e-12
    shares = (errors.min() / errors) ** _SHARPNESS
    shares = np.where(shares < _LEAST_SHARE * shares.sum(), 0.0, shares)
    shares /= shares.sum()
    logs, variances = np.stack([one.left_out for one in candidates]), np.stack([one.variance for one in candidates])
    middle, deviation = _mixed(shares[:, None], logs, variances)
    members = [
        Member(share=share, terms=one.terms, coefs=tuple(one.coefs), theta=tuple(one.process.theta),
               target=tuple(one.process.target), noise=tuple(one.process.noise))
        for share, one in zip(shares.tolist(), candidates) if share > 0
    ]
    return Regressor(
        schema_version=1, names=names, features=tuple(map(tuple, table.tolist())), members=tuple(members),
        error=float(np.average(np.abs(np.exp(middle) / ms - 1), weights=counts)),
        calibration=max(0.5, float(np.quantile(np.abs(np.log(ms) - middle) / deviation, 0.683 * (1 + 1 / len(ms))))),
        spread=float(np.std(np.log(ms))), least_ms=_least(ms),
    )


def _mixed(shares: Floats, logs: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the mixture of the members."""
    middle = (shares * logs).sum(0)
    return middle, np.sqrt((shares * (variances + (logs - middle) ** 2)).sum(0))


def _sum_of_products(design: Floats, ms: Floats, counts: Floats) -> tuple[Floats, Floats, Floats, float]:
    """Coefficients, leave-one-out predictions, row weights, and the relative noise."""
    believed, level = np.ones(len(ms)), ms
    for _ in range(6):
        scale = np.sqrt(counts * believed) / level
        rows, goal = design * scale[:, None], ms * scale
        coefs = _not_negative(rows, goal)
        level = np.maximum(design @ coefs, _least(ms))
        residual = np.log(ms / level)
        noise = max(1.4826 * float(np.median(np.abs(residual))), 1e-4)
        believed = (_FREEDOM + 1) / (_FREEDOM + (residual / noise) ** 2)
    gain = rows.T @ (goal - rows @ coefs) / np.maximum(np.linalg.norm(rows, axis=0), 1e-300)
    near = np.argsort(np.where(coefs > 0, -np.inf, -gain), kind="stable")[: max(_CANDIDATES, int((coefs > 0).sum()))]
    others = [_not_negative(np.delete(rows[:, near], row, 0), np.delete(goal, row)) for row in range(len(ms))]
    left_out = np.maximum((design[:, near] * np.array(others)).sum(1), _least(ms))
    return coefs, left_out, believed, noise


def _not_negative(rows: Floats, goal: Floats) -> Floats:
    """Least squares with coefficients that are not negative."""
    try:
        return nnls(rows, goal, maxiter=20 * rows.shape[1])[0]
    except RuntimeError:  # nearly equal terms can make it cycle
        return lsq_linear(rows, goal, (0, np.inf)).x


def _process(inputs: Floats, target: Floats, counts: Floats, believed: Floats, noise: float) -> _Process:
    """The maximum a posteriori process, with noise scaled by row weights."""
    spread = 0.5 * math.log(_level(target))
    n_inputs = inputs.shape[1]
    middle = np.array([_RELEVANCE[0]] * n_inputs + [spread, spread, math.log(max(noise, 1e-3))])
    width = np.array([_RELEVANCE[1]] * n_inputs + [1.5] * 3)
    theta, bounds = middle, [(-12.0, 3.0)] * n_inputs + [(math.log(1e-4), 1.0)] * 3
    for steps in _ROUNDS:
        weights = counts * believed
        theta = minimize(_loss, theta, (inputs, target, weights, middle, width), jac=True, method="L-BFGS-B",
                         bounds=bounds, options={"maxiter": steps}).x
        variance = math.exp(2 * theta[-1])
        process = _Process(theta, inputs, target, variance / weights)
        residual = process.posterior.solve(target) * process.noise
        unsure = process.noise - process.noise**2 * np.diag(process.posterior.inverse)
        believed = (_FREEDOM + 1) / (_FREEDOM + counts * (residual**2 + unsure) / variance)
    return process


def _loss(
    theta: Floats, inputs: Floats, target: Floats, weights: Floats, middle: Floats, width: Floats
) -> tuple[float, Floats]:
    """Negative log posterior of the hyper-parameters, and its gradient."""
    bends, bending, slopes = _covariances(theta, inputs, inputs)
    noise = math.exp(2 * theta[-1]) / weights
    posterior = Posterior(bends + slopes + _level(target), noise + _LEAST_VARIANCE)
    solved = posterior.solve(target)
    gradient = 0.5 * (posterior.inverse - np.outer(solved, solved))
    scales = np.exp(theta[:-3])
    bent = gradient * bending
    lengths = 2 * (bent.sum(0) @ inputs**2 - np.sum(inputs * (bent @ inputs), 0))
    lengths += math.exp(2 * theta[-2]) * np.sum(inputs * (gradient @ inputs), 0)
    sizes = 2 * np.array([(gradient * bends).sum(), (gradient * slopes).sum(), np.diag(gradient) @ noise])
    off = (theta - middle) / width
    value = posterior.negative_log_likelihood(target) + 0.5 * off @ off
    return float(value), np.concatenate([lengths * scales, sizes]) + off / width


def _covariances(theta: Floats, left: Floats, right: Floats) -> tuple[Floats, Floats, Floats]:
    """Of bends, their derivative by the squared distance, and of slopes."""
    scales, size = np.exp(theta[:-3]), math.exp(2 * theta[-3])
    inner = (left * scales) @ right.T
    squared = ((left**2) @ scales)[:, None] + ((right**2) @ scales)[None] - 2 * inner
    distance = np.sqrt(5 * np.maximum(squared, 0.0))
    decay = size * np.exp(-distance)
    bends = (1 + distance + distance**2 / 3) * decay
    return bends, -5 / 6 * (1 + distance) * decay, math.exp(2 * theta[-2]) * inner


def _level(target: Floats) -> float:
    """Prior variance of the constant."""
    return max(float(target.std()), 1e-4) ** 2


def _least(ms: Floats) -> float:
    return 1e-3 * float(ms.min())


def _terms(products: Floats, ms: Floats, factors: int) -> Terms:
    """Products of up to this many features, without duplicates on these rows."""
    ranks = rankdata(products, axis=0) - (len(ms) + 1) / 2
    follows = np.abs(ranks.T @ rankdata(ms)) / np.maximum(np.linalg.norm(ranks, axis=0), 1e-300)
    varying = np.flatnonzero(_varies(products)).tolist()
    multiplied = sorted(sorted(varying, key=lambda column: -follows[column])[:MOST_MULTIPLIED])
    terms: list[tuple[int, ...]] = [(), *((column,) for column in varying if factors)]
    for n_factors in range(2, factors + 1):
        terms += combinations_with_replacement(multiplied, n_factors)
    _, first = np.unique(_products(tuple(terms), products).round(12), axis=1, return_index=True)
    return tuple(terms[column] for column in sorted(first.tolist()))


def _products(terms: Terms, scaled: Floats) -> Floats:
    return np.stack([scaled[:, list(term)].prod(1) for term in terms], 1)


def _scale(table: Floats) -> Floats:
    means: Floats = table.mean(0)
    return np.where(means > 0, means, 1.0)


def _varies(table: Floats) -> npt.NDArray[np.bool_]:
    return np.ptp(table, axis=0) > 1e-9 * np.abs(table).max(0)


def _inputs(measured: Floats, table: Floats) -> Floats:
    """Logarithms of the features that vary, standardised by the measured rows; softened near 0."""
    varies = _varies(measured)
    known = np.log(measured[:, varies] / _scale(measured)[varies] + 0.02)
    return (np.log(table[:, varies] / _scale(measured)[varies] + 0.02) - known.mean(0)) / known.std(0)


def _outside(measured: Floats, table: Floats) -> Floats:
    """How far outside the measured ranges each row lies, in ranges; of a feature that never varied, in its size."""
    low, high = measured.min(0), measured.max(0)
    unit = np.where(_varies(measured), high - low, np.maximum(high, 1.0))
    return (np.maximum(np.maximum(low - table, table - high), 0.0) / unit).sum(1)
