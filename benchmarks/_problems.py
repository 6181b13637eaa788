"""Made-up architecture searches of 51 choices: a noisy loss to be learnt, and an exact cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.distributions import CategoricalDistribution

Params = dict[str, Any]
LAYERS = 10
NOISE = 0.02
KINDS = ("attention", "convolution", "linear")


@dataclass(frozen=True)
class Problem:
    """A loss and a cost, both minimised.

    Args:
        noise: the standard deviation of what is measured of the loss.
        reference: the point hypervolumes are measured from.
    """

    distributions: dict[str, CategoricalDistribution]
    loss: Callable[[Params], float]
    cost: Callable[[Params], float]
    key: Callable[[Params], Any] | None
    noise: float
    reference: tuple[float, float]


def make_problem(name: str, seed: int = 0) -> Problem:
    """The problem of this name: `additive`, `masked` or `saturating`."""
    distributions, loss, cost, key = {"additive": _additive, "masked": _masked, "saturating": _saturating}[name](
        np.random.default_rng([seed, len(name)]))
    rng = np.random.default_rng([seed, 1])
    drawn = [{gene: one.choices[rng.integers(len(one.choices))] for gene, one in distributions.items()}
             for _ in range(500)]
    values = np.array([(loss(params), cost(params)) for params in drawn])
    worst = values.max(axis=0) + 0.5 * np.ptp(values, axis=0)
    return Problem(distributions, loss, cost, key, NOISE * float(np.ptp(values[:, 0])),
                   (float(worst[0]), float(worst[1])))


def _additive(rng: np.random.Generator) -> tuple[Any, ...]:
    """Every choice has its own effect and its own cost, and they are correlated."""
    names = [f"g{i:02d}" for i in range(51)]
    distributions = {name: CategoricalDistribution(tuple(range(3 + i % 3))) for i, name in enumerate(names)}
    costs = {name: np.sort(rng.gamma(1.0, 1.0, len(one.choices))) for name, one in distributions.items()}
    gains = {name: 0.6 * costs[name] + rng.normal(0, 0.5, len(one.choices)) for name, one in distributions.items()}

    def loss(params: Params) -> float:
        return -float(sum(gains[name][params[name]] for name in names))

    def cost(params: Params) -> float:
        return float(sum(costs[name][params[name]] for name in names))

    return distributions, loss, cost, None


def _layered() -> dict[str, CategoricalDistribution]:
    distributions = {"depth": CategoricalDistribution((4, 5, 6, 7, 8, 9, 10))}
    for i in range(LAYERS):
        distributions |= {f"{i}.width": CategoricalDistribution((64, 128, 192, 256)),
                  f"{i}.heads": CategoricalDistribution((1, 2, 4, 8)),
                  f"{i}.inner": CategoricalDistribution((1, 2, 3, 4)),
                  f"{i}.kind": CategoricalDistribution(KINDS), f"{i}.gated": CategoricalDistribution((False, True))}
    return distributions


def _masked(rng: np.random.Generator) -> tuple[Any, ...]:
    """Layers beyond the depth do nothing; kinds interact with their neighbours and with the number of heads."""
    pair, heads = rng.normal(0, 0.35, (3, 3)), rng.normal(0, 0.3, (3, 9))
    kind, gated, place = rng.normal(0, 0.4, 3), rng.normal(0, 0.2, (3, 2)), rng.uniform(0.5, 1.5, LAYERS)
    price = {"attention": 1.3, "convolution": 1.0, "linear": 0.7}

    def layer(params: Params, i: int) -> tuple[int, ...]:
        return (params[f"{i}.width"], params[f"{i}.heads"], params[f"{i}.inner"],
                KINDS.index(params[f"{i}.kind"]), int(params[f"{i}.gated"]))

    def loss(params: Params) -> float:
        kept = [layer(params, i) for i in range(params["depth"])]
        gain = 0.0
        for i, (width, n_heads, inner, mixer, gate) in enumerate(kept):
            gain += place[i] * (np.log2(width / 32) * 0.5 + 0.4 * np.log2(inner + 1) + kind[mixer])
            gain += heads[mixer, n_heads] + gated[mixer, gate]
        return -float(gain + sum(pair[a[3], b[3]] for a, b in zip(kept, kept[1:])))

    def cost(params: Params) -> float:
        total = 0.0
        for i in range(params["depth"]):
            width, inner = params[f"{i}.width"], params[f"{i}.inner"]
            total += width * width * (price[params[f"{i}.kind"]] * 4 + inner * (3 if params[f"{i}.gated"] else 2))
        return total / 1e6

    def key(params: Params) -> Any:
        return tuple(layer(params, i) for i in range(params["depth"]))

    return _layered(), loss, cost, key


def _saturating(rng: np.random.Generator) -> tuple[Any, ...]:
    """The loss falls as a power of a capacity that is a product of sums, with a bottleneck; the cost is uneven."""
    skill = {name: rng.uniform(0.3, 1.7, len(one.choices)) for name, one in _layered().items()}
    share = rng.dirichlet(np.full(LAYERS, 2.0)) * LAYERS

    def loss(params: Params) -> float:
        works = [share[i] * (params[f"{i}.width"] / 128) ** 0.5 * (0.5 + 0.3 * params[f"{i}.inner"])
                 * skill[f"{i}.kind"][KINDS.index(params[f"{i}.kind"])]
                 * (1 + 0.2 * skill[f"{i}.heads"][int(np.log2(params[f"{i}.heads"]))])
                 * (1 + 0.1 * skill[f"{i}.gated"][int(params[f"{i}.gated"])]) for i in range(LAYERS)]
        capacity = sum(works) * params["depth"] / 10 + 2 * min(works)
        return 1.5 + 8 * float(capacity) ** -0.6

    def cost(params: Params) -> float:
        layer_costs = [params[f"{i}.width"] * (1 + params[f"{i}.inner"] * (1.5 if params[f"{i}.gated"] else 1.0))
                * (1.5 if params[f"{i}.kind"] == "attention" else 1.0) + 40 * np.ceil(params[f"{i}.heads"] / 2)
                for i in range(LAYERS)]
        return float(sum(layer_costs)) * (0.4 + 0.06 * params["depth"]) / 1e3

    return _layered(), loss, cost, None
