"""The backend in this process: one architecture after the other. The same seed gives the same trials."""

from __future__ import annotations

from collections.abc import Callable

from nas.core.stopping import Stop, Stopped
from nas.stages.search.evaluator import Evaluation, Race
from nas.stages.search.search import Search
from search_spaces import Architecture

Evaluate = Callable[[Architecture, Race | None], Evaluation]


def run_local(search: Search, stop: Stop = lambda: False, evaluate: Evaluate | None = None) -> None:
    """Search until all trials are done.

    Args:
        evaluate: by default on the run's supernet.

    Raises:
        Stopped: `stop` ended it before.
    """
    evaluate = evaluate or search.setup.evaluator()
    while search.done < search.n_trials:
        if stop():
            raise Stopped
        proposal = search.propose()
        if proposal is not None:
            search.accept(proposal, evaluate(proposal.arch, proposal.race))
