"""Samplers by their names: one file each; README.md of this folder describes such a file.

User samplers come from packages, through the entry-point group `nas.samplers`, or from single files: see
`search_spaces.plugins`.
"""

from __future__ import annotations

import hashlib
import warnings

from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler

from nas.stages.search.samplers._problem import Problem
from search_spaces.errors import Option
from search_spaces.plugins import ModuleRegistry

_registry = ModuleRegistry(str(__package__), "nas.samplers", "sampler", ("PURE", "HELP", "make"), Option("sampler"))
names, get = _registry.names, _registry.get


class Proposer:
    """The sampler of each trial of a search.

    A sampler's random stream would restart with every process. So each trial gets a sampler with its own seed, unless
    the module declares its sampler as `PURE`: proposals depend only on its seed and earlier trials.

    Raises:
        InputError: there is no sampler of that name.
    """

    def __init__(self, name: str, problem: Problem, seed: int) -> None:
        self._module = get(name)
        self._problem, self._seed = problem, seed
        self._pure = self._made(seed) if self._module.PURE else None

    def sampler(self, number: int) -> BaseSampler:
        """The sampler of the trial with that number."""
        if self._pure is not None:
            return self._pure
        digest = hashlib.sha256(f"{self._seed}/{number}".encode()).digest()
        return self._made(int.from_bytes(digest[:4], "little"))

    def _made(self, seed: int) -> BaseSampler:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            sampler: BaseSampler = self._module.make(self._problem, seed)
        return sampler
