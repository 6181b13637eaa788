"""Files of a search: the study's journal, the table `trials.csv`, and evaluations by architecture."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from optuna.trial import FrozenTrial, Trial, TrialState

from nas.core.measures import parse_measure
from nas.core.run_dir import write_text
from nas.core.study import open_study
from nas.core.trials import UNMEASURED
from nas.stages.search.evaluations import Evaluations
from nas.stages.search.evaluator import Evaluation
from nas.stages.search.setup import SearchSetup
from search_spaces import Architecture


class SearchRecord:
    """The finished trials of a search, in memory and on disk.

    Raises:
        InputError: the journal is damaged, or of another search.
    """

    def __init__(self, setup: SearchSetup, evaluations: Evaluations) -> None:
        self.setup, self.evaluations = setup, evaluations
        self.study = open_study(setup.run.path / "study.journal", setup.objectives, setup.space)
        self.done = sum(map(_counts, self.study.finished))
        """Number of evaluated or failed trials; trials that violate a limit are not evaluated."""
        costs = [measure.name for measure in setup.prices.measures(setup.space.largest())]
        self._table = TrialsTable(setup.run.path / "trials.csv", list(setup.config.metrics(setup.task)), costs,
                                  list(setup.space.genes))

    @property
    def finished(self) -> list[FrozenTrial]:
        """The finished trials, oldest first."""
        return self.study.finished

    def start(self, n_trials: int) -> None:
        """Write the settings of the search, with this number of trials, and the table of the existing trials."""
        config = self.setup.config.model_copy(update={"trials": n_trials})
        write_text(self.setup.run.path / "search.yaml", config.to_yaml())
        self._table.start(self.finished)

    def add(self, trial: Trial, arch: Architecture, state: TrialState, values: Sequence[float] | None = None,
            **attributes: Any) -> FrozenTrial:
        """Finish a trial.

        Args:
            attributes: stored besides its key, its costs and its excess over limits.
        """
        known = {"key": arch.key, "costs": self.setup.costs(arch), **attributes,
                 UNMEASURED: self.setup.prices.unmeasured_of(arch)}
        finished = self.study.tell(trial, state, values, known,
                                   self.setup.excesses(arch, attributes.get("metrics")))
        self.done += _counts(finished)
        self._table.add(finished)
        return finished

    def keep(self, arch: Architecture, evaluation: Evaluation) -> None:
        """Store an evaluation, unless a better one is known."""
        known = self.evaluations.get(arch.key)
        if known is None or len(known.losses) < len(evaluation.losses):
            self.evaluations.add(arch.key, evaluation)


def _counts(trial: FrozenTrial) -> bool:
    return trial.state != TrialState.PRUNED


class TrialsTable:
    """`trials.csv`: a row per finished trial, added as it finishes."""

    def __init__(self, path: Path, metrics: Sequence[str], costs: Sequence[str], genes: Sequence[str]) -> None:
        self.path, self.metrics, self.costs, self.genes = path, list(metrics), list(costs), list(genes)
        self.shared = [name for name in costs if parse_measure(name, {}).kind.partly_unmeasured]

    def start(self, trials: Iterable[FrozenTrial]) -> None:
        """Rewrite the file with the existing trials."""
        shares = [f"{UNMEASURED}:{name}" for name in self.shared]
        head = ["number", "state", "key", *self.metrics, *self.costs, *shares, "estimated", "low", "high", "reason",
                *self.genes]
        write_text(self.path, "".join([_line(head), *(_line(self._row(trial)) for trial in trials)]))

    def add(self, trial: FrozenTrial) -> None:
        """One more row."""
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(_line(self._row(trial)))

    def _row(self, trial: FrozenTrial) -> list[Any]:
        known = trial.user_attrs
        metrics, costs, shares = known.get("metrics", {}), known.get("costs", {}), known.get(UNMEASURED, {})
        low, high = known.get("interval") or ("", "")
        return [trial.number, trial.state.name, known.get("key", ""), *(metrics.get(name, "") for name in self.metrics),
                *(costs.get(name, "") for name in self.costs), *(shares.get(name, "") for name in self.shared),
                int(low != ""), low, high, known.get("reason", ""),
                *(trial.params.get(name, "") for name in self.genes)]


def _line(cells: Sequence[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()
