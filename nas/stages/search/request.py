"""The requests for a search and for its fronts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nas.core.search_config import SearchConfig, make_search
from search_spaces import InputError
from search_spaces.errors import Command, Option


@dataclass(frozen=True)
class SearchCluster:
    """The Ray cluster that evaluates, and the resources of an evaluation.

    Args:
        ray: auto (the cluster of this machine), an address, or local (one on this machine for this search).
        concurrency: evaluations at once; by default as many as fit.

    Raises:
        InputError: invalid resources, or an address that cannot reach the study.
    """

    ray: str = "auto"
    concurrency: int | None = None
    cpus_per_trial: float = 1.0
    gpus_per_trial: float = 0.0

    def __post_init__(self) -> None:
        for option, value, least in (("cpus_per_trial", self.cpus_per_trial, 1e-4),
                                     ("gpus_per_trial", self.gpus_per_trial, 0)):
            if value < least or (value > 1 and value != int(value)):
                raise InputError(Option(option), f"{value:g} is not allowed; allowed: a share of one, or a whole "
                                                 "number")
        if self.ray.startswith("ray://"):
            raise InputError(Option("ray"), f"{self.ray} is an address for Ray Client, which cannot reach the study; "
                                            f"run nas on a machine of the cluster with {Option('ray')} auto")


@dataclass(frozen=True)
class SearchRequest:
    """A search to start, or to resume.

    Args:
        run: a trained run.
        settings: only given fields count; a resumed search keeps its own for the others.
        more: number of trials to add.
        fresh: archive an older search and start a new one; its evaluations are reused.
        cluster: where it evaluates; in this process by default.

    Raises:
        InputError: two options cannot be combined.
    """

    run: str
    settings: SearchConfig = field(default_factory=SearchConfig)
    more: int | None = None
    fresh: bool = False
    cluster: SearchCluster | None = None

    def __post_init__(self) -> None:
        if self.fresh and self.more is not None:
            raise InputError(Option("fresh"), f"cannot be combined with {Option('more')}, which resumes a search")
        if self.more is not None and "trials" in self.given:
            raise InputError(Option("more"), f"cannot be combined with {Option('trials')}; it adds trials to a search")

    @property
    def given(self) -> dict[str, Any]:
        """The settings that were given, by their names."""
        return {name: getattr(self.settings, name) for name in self.settings.model_fields_set}

    @classmethod
    def of(cls, run: str, given: Mapping[str, Any], more: int | None = None, fresh: bool = False,
           cluster: SearchCluster | None = None) -> SearchRequest:
        """A request of settings by the names of `SearchConfig`. Raises InputError with every wrong one."""
        return cls(run, make_search(given, str(Command("search"))), more, fresh, cluster)


@dataclass(frozen=True)
class ParetoRequest:
    """The fronts of a search.

    Args:
        device: show only its front; may be profiled after the search.
    """

    run: str
    device: str | None = None
