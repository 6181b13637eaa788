"""The cost of a training instead of its steps, so that strategies can be compared at equal cost.

A step of a sandwich trains four architectures, a step of `turns` one; and architectures differ in size. `passes` counts
forward and backward passes, `macs` the multiply-adds of the forward passes, with sequences as long as the context.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nas.core.config import make_recipe
from nas.core.measures import registry
from search_spaces import Fault, InputError, SearchSpace, load_space
from search_spaces.errors import Option, shown
from supernet.train.recipe import BUDGETS, Recipe
from supernet.train.strategy import make_strategy, sampled_steps


def with_steps(settings: Mapping[str, Any], space: str | SearchSpace | None,
               base: Recipe | None = None) -> dict[str, Any]:
    """Training settings in which `passes` or `macs` is replaced by the number of steps.

    Args:
        space: a space or its file; needed for a budget only.
        base: settings that are not given.

    Raises:
        InputError: a budget is not a positive number, is given twice, or is too small for one step.
    """
    given = [name for name in ("steps", *BUDGETS) if name in settings]
    rest = {name: value for name, value in settings.items() if name not in BUDGETS}
    if not set(given) & set(BUDGETS):
        return rest
    if len(given) > 1:
        raise _fault(given[-1], f"cannot be combined with {given[0]}: both set the length of the training; give one")
    assert space is not None, "a new run has a space"
    name, recipe = given[0], make_recipe(rest, base)
    amount = _parse(name, settings[name])
    price = _price_of_step(name, recipe, load_space(space) if isinstance(space, str) else space)
    if amount < price:
        raise _fault(name, f"{shown(settings[name])} is less than one step of {recipe.strategy!r} needs: {price:,.0f}")
    return {**rest, "steps": round(amount / price)}


def _parse(name: str, value: Any) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        amount = registry()["macs"].parse(str(value))
    except ValueError:
        amount = 0.0
    if not 0 < amount < float("inf"):
        raise _fault(name, f"{shown(value)} is not allowed; allowed: a positive number, such as 16000 or 20T")
    return amount


def _price_of_step(name: str, recipe: Recipe, space: SearchSpace) -> float:
    """The mean passes or multiply-adds of a step, over a sample of the steps."""
    strategy = make_strategy(recipe.strategy, space, recipe.seed, recipe.n_random, recipe.steps)
    steps = sampled_steps(recipe.steps)
    archs = [arch for step in steps for arch in strategy.draw(step)]
    passes = len(archs) * recipe.accumulate / len(steps)
    if name == "passes":
        return passes
    from nas.core.costs import count  # it imports torch

    macs = sum(count(arch, space.context).macs for arch in archs) / len(archs)
    return passes * recipe.batch_size * macs


def _fault(name: str, text: str) -> InputError:
    return InputError(Option("training"), [Fault(name, text)])
