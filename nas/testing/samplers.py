"""What every sampler promises."""

from __future__ import annotations

from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler

from nas.stages.search import samplers
from nas.stages.search.samplers import Params, Problem, Proposer

DISTRIBUTIONS: dict[str, BaseDistribution] = {
    "layers": IntDistribution(1, 6), "width": CategoricalDistribution((64, 128, 256)),
    "gated": CategoricalDistribution((False, True))}


def cost(params: Params) -> float:
    """A cost that is known without evaluation."""
    return float(params["layers"] * params["width"])


def quality(params: Params) -> float:
    """A quality that must be evaluated."""
    return 1 / params["layers"] + 100 / params["width"] + 0.1 * params["gated"]


class SamplerContract:
    """Set `name` to that of your sampler."""

    name: str
    n_trials = 24

    def problem(self) -> Problem:
        """Two objectives; the second needs no evaluation."""
        return Problem(exact={1: cost}, exact_many={1: lambda many: [cost(params) for params in many]},
                       key=lambda params: tuple(sorted(params.items())), distributions=DISTRIBUTIONS)

    def trials(self, seed: int, stops: tuple[int, ...] = ()) -> list[Params]:
        """The parameters of a study's trials; after each stop, a new process resumes."""
        study = optuna.create_study(directions=["minimize", "minimize"])
        proposer = Proposer(self.name, self.problem(), seed)
        for number in range(self.n_trials):
            if number in stops:
                proposer = Proposer(self.name, self.problem(), seed)
            study.sampler = proposer.sampler(number)
            trial = study.ask(DISTRIBUTIONS)
            study.tell(trial, [quality(trial.params), cost(trial.params)])
        return [trial.params for trial in study.trials]

    def test_the_declaration_is_complete(self) -> None:
        module: Any = samplers.get(self.name)
        assert module.HELP and not module.HELP.endswith(".") and isinstance(module.PURE, bool)
        assert isinstance(module.make(self.problem(), 0), BaseSampler)

    def test_proposals_are_allowed(self) -> None:
        for params in self.trials(0):
            assert params.keys() == DISTRIBUTIONS.keys()
            assert params["layers"] in range(1, 7) and params["width"] in (64, 128, 256)

    def test_the_same_seed_proposes_the_same_and_another_does_not(self) -> None:
        first = self.trials(1)
        assert self.trials(1) == first != self.trials(2)

    def test_a_resumed_search_proposes_the_same(self) -> None:
        assert self.trials(3, stops=(1, 9, 17)) == self.trials(3)
