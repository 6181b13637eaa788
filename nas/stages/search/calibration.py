"""Corrects inherited losses by those of a few architectures that were trained from scratch (`nas rank`).

The gap between inherited and trained loss varies: large models may gain more from training alone than small ones. The
gap is modelled as a linear function of inherited loss, size and depth, fitted by ridge regression. Its strength is
chosen by leave-one-out error, so that a correction that the data do not support shrinks to a constant, which changes no
ranking.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nas.core.costs import count
from nas.core.pareto import Floats
from nas.core.prediction_quality import tau
from nas.core.rankings import TrainedArchitecture, read_trained
from nas.core.run_dir import RunDir
from nas.stages.search.evaluations import Evaluations
from nas.stages.search.evaluator import Evaluate
from nas.stages.search.setup import SearchSetup
from search_spaces import Architecture, InputError
from search_spaces.errors import Command, Option

LEAST = 8
"""Minimum number of architectures for a correction with four features."""
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1e9)
"""Ridge penalties to choose from; the last leaves a constant."""


@dataclass(frozen=True)
class LossCorrection:
    """A fitted correction.

    Args:
        features: of an architecture with its inherited loss.
        mean: of each feature over the trained architectures.
        scale: standard deviation of each.
        weights: one per standardised feature, the constant last.
        n: number of trained architectures.
        error_before: root mean squared difference of inherited and trained losses, less its mean.
        error: root mean squared leave-one-out error of the corrected losses.
        tau_before: Kendall's tau of inherited with trained losses.
        tau: of the corrected losses, each without its own training.
    """

    features: Callable[[Architecture, float], list[float]]
    mean: Floats
    scale: Floats
    weights: Floats
    n: int
    error_before: float
    error: float
    tau_before: float | None
    tau: float | None

    def __call__(self, arch: Architecture, loss: float) -> float:
        """The loss that the architecture would have if it were trained from scratch."""
        row = (np.asarray(self.features(arch, loss)) - self.mean) / self.scale
        return loss + float(np.append(row, 1.0) @ self.weights)

    def summary(self) -> str:
        """What it achieves, in a sentence."""
        def shown(value: float | None) -> str:
            return "undefined" if value is None else f"{value:.2f}"

        return (f"calibrated with {self.n} architectures trained from scratch: error {self.error_before:.3f} to "
                f"{self.error:.3f} nats, Kendall's tau {shown(self.tau_before)} to {shown(self.tau)} (leave-one-out)")


def fit(archs: Sequence[Architecture], inherited: Sequence[float], trained: Sequence[float],
        features: Callable[[Architecture, float], list[float]]) -> LossCorrection:
    """The correction with the least leave-one-out error."""
    rows = np.asarray([features(arch, loss) for arch, loss in zip(archs, inherited)])
    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    design = np.hstack([(rows - mean) / scale, np.ones((len(rows), 1))])
    gap = np.asarray(trained) - np.asarray(inherited)
    fits = [_ridge(design, gap, strength) for strength in STRENGTHS]
    weights, left_out = min(fits, key=lambda candidate: float(np.mean(candidate[1] ** 2)))
    return LossCorrection(
        features, mean, scale, weights, len(rows), error_before=float(gap.std()),
        error=float(np.sqrt(np.mean(left_out ** 2))), tau_before=tau(np.asarray(inherited), np.asarray(trained)),
        tau=tau(np.asarray(trained) - left_out, np.asarray(trained)))


def _ridge(design: Floats, target: Floats, strength: float) -> tuple[Floats, Floats]:
    """The weights, and the error of each row in a fit without it; the constant has no penalty."""
    penalty = np.diag([strength] * (design.shape[1] - 1) + [0.0])
    inverse = np.linalg.pinv(design.T @ design + penalty)
    weights = inverse @ design.T @ target
    leverage = np.einsum("ij,jk,ik->i", design, inverse, design)
    return weights, (target - design @ weights) / np.maximum(1 - leverage, 1e-9)


def calibrate(setup: SearchSetup, evaluations: Evaluations, evaluate: Callable[[], Evaluate]) -> LossCorrection | None:
    """The correction of a search from the models trained in its `calibrate` run; None if it names none.

    The trained architectures are evaluated with this search's supernet, on its own validation examples.

    Args:
        evaluations: where known evaluations are, and new ones are stored.
        evaluate: returns the evaluator, if an architecture is unknown.

    Raises:
        InputError: too few of the trained architectures are in the space.
    """
    if setup.config.calibrate is None:
        return None
    trained = usable(setup.config.calibrate, setup)
    missing = [reference.arch for reference in trained if not _fully_known(evaluations, reference.arch)]
    evaluator = evaluate() if missing else None
    for arch in missing:
        assert evaluator is not None
        evaluations.add(arch.key, evaluator(arch, None))
    pairs = [(reference, known.metrics["loss"]) for reference in trained
             if (known := evaluations.get(reference.arch.key)) is not None]
    _check_enough(len(pairs), setup.config.calibrate)
    return fit([reference.arch for reference, _ in pairs], [loss for _, loss in pairs],
               [reference.loss for reference, _ in pairs],
               lambda arch, loss: _features(arch, loss, setup.space.context))


def usable(run: str, setup: SearchSetup) -> list[TrainedArchitecture]:
    """The trained architectures of a run that are in the space of a search. Raises InputError if they are few."""
    trained = [reference for reference in read_trained(RunDir.open(run)) if reference.arch in setup.space]
    _check_enough(len(trained), run)
    return trained


def check_enough_trained(run: str) -> None:
    """Raises InputError if a run has too few trained architectures for any search."""
    _check_enough(len(read_trained(RunDir.open(run))), run)


def _check_enough(n: int, run: str) -> None:
    if n < LEAST:
        raise InputError(Option("calibrate"), f"{run} has {n} architectures of this space that were trained from "
                                              f"scratch; {LEAST} are needed; run {Command('rank', run)}")


def _fully_known(evaluations: Evaluations, arch: Architecture) -> bool:
    known = evaluations.get(arch.key)
    return known is not None and known.interval is None


def _features(arch: Architecture, loss: float, context: int) -> list[float]:
    cost = count(arch, context)
    return [loss, float(np.log(cost.params)), float(np.log(max(cost.macs, 1))), float(arch.depth)]
