"""The backend in this process: one architecture after the other. The same seed gives the same trials."""

from __future__ import annotations

from collections.abc import Callable

from optuna.trial import FrozenTrial

from nas.search.stage import Search

Told = Callable[[FrozenTrial], None]


def run_local(search: Search, told: Told, stop: Callable[[], bool] = lambda: False) -> bool:
    """Search until all trials are done; false where it was stopped before.

    Args:
        told: hears of every finished trial.
    """
    evaluate = search.evaluator()
    search.told = told
    while search.done < search.config.trials:
        if stop():
            return False
        proposal = search.propose()
        if proposal is not None:
            search.accept(proposal, evaluate(proposal.arch, proposal.race))
    return True
