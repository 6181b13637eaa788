"""Samplers by their names: one file each."""

from __future__ import annotations

import hashlib
import importlib
import pkgutil
import warnings
from functools import lru_cache
from pathlib import Path

from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler

from nas.stages.search.samplers._problem import Problem
from search_spaces import InputError


@lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """The samplers of this folder."""
    found = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return tuple(sorted(name for name in found if not name.startswith("_")))


class Proposer:
    """The sampler of each trial of a search.

    A sampler's own stream of random numbers would start again with every process. So each trial gets a sampler with a
    seed of its own, unless the module says that its sampler is `PURE`: what it proposes depends on its seed and the
    trials before only.

    Raises:
        InputError: there is no sampler of that name.
    """

    def __init__(self, name: str, problem: Problem, seed: int) -> None:
        if name not in names():
            raise InputError("sampler", f"{name!r} is unknown; allowed: {', '.join(names())}")
        self._module = importlib.import_module(f"nas.stages.search.samplers.{name}")
        self._problem, self._seed = problem, seed
        self._pure = self._made(seed) if getattr(self._module, "PURE", False) else None

    def sampler(self, number: int) -> BaseSampler:
        """What proposes the trial of that number."""
        if self._pure is not None:
            return self._pure
        digest = hashlib.sha256(f"{self._seed}/{number}".encode()).digest()
        return self._made(int.from_bytes(digest[:4], "little"))

    def _made(self, seed: int) -> BaseSampler:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            made: BaseSampler = self._module.make(self._problem, seed)
        return made
