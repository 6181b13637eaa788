"""Samplers by their names: one file each; README.md of this folder describes such a file.

User samplers come from packages, through the entry-point group `nas.samplers`, or from single files: see
`search_spaces.plugins`.
"""

from __future__ import annotations

import hashlib
import warnings
from types import ModuleType
from typing import Any

from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler

from nas.stages.search.samplers._problem import Problem
from search_spaces import InputError, plugins
from search_spaces.errors import Option, did_you_mean

GROUP = "nas.samplers"
HOLDS = ("HELP", "PURE", "make")
"""Required names of a file."""


def names() -> tuple[str, ...]:
    """What samplers are called: the names of their files with dashes."""
    return tuple(sorted(_registry()))


def get(name: str) -> Any:
    """The module of a sampler. Raises InputError if there is none."""
    try:
        return _registry()[name]
    except KeyError:
        raise InputError(Option("sampler"), f"{name!r} is unknown; allowed: {', '.join(names())}"
                                            f"{did_you_mean(name, names())}") from None


@plugins.cached
def _registry() -> dict[str, ModuleType]:
    found = list(plugins.extensions(str(__package__), GROUP, lambda module: hasattr(module, "PURE")))
    for plugin in found:
        plugins.check_holds(plugin, HOLDS, "sampler")
    return plugins.by_file_name(found, "sampler")


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
            made: BaseSampler = self._module.make(self._problem, seed)
        return made
