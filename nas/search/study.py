"""The Optuna study of a search: sampled in memory, kept in a journal to which every finished trial is added once.

Nothing unfinished is ever on the disk, so a search that dies loses what it was about to evaluate and nothing else.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from search_spaces import InputError

NAME = "search"
"""Of the study in its journal."""


class Study:
    """The trials of one search, here and on the disk.

    Args:
        path: of the journal; made where it is missing.
        names: of the objectives.
        maximise: whether more of an objective is better, for each.

    Raises:
        InputError: the journal is damaged, or holds other objectives.
    """

    def __init__(self, path: Path, names: Sequence[str], maximise: Sequence[bool],
                 distributions: Mapping[str, BaseDistribution]) -> None:
        self.path, self.distributions = path, dict(distributions)
        directions = [StudyDirection.MAXIMIZE if more else StudyDirection.MINIMIZE for more in maximise]
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        cut_back(path)
        self._disk = _open(path, directions)
        if self._disk.metric_names is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                self._disk.set_metric_names(list(names))
        if self._disk.metric_names != list(names) or self._disk.directions != directions:
            raise InputError(str(path), f"is a search for {', '.join(self._disk.metric_names or ())}, not for "
                                        f"{', '.join(names)}; start anew with --fresh")
        self._check()
        self.memory = optuna.create_study(directions=directions)
        self.memory.add_trials(self._disk.get_trials(deepcopy=False))

    def _check(self) -> None:
        for trial in self._disk.get_trials(deepcopy=False):
            if not {"key", "costs"} <= trial.user_attrs.keys() or trial.params.keys() != self.distributions.keys():
                raise InputError(str(self.path), f"trial {trial.number} is not of this search; put the file back, or "
                                                 "start anew with --fresh")

    @property
    def finished(self) -> list[FrozenTrial]:
        """The finished trials, oldest first."""
        done = (TrialState.COMPLETE, TrialState.FAIL, TrialState.PRUNED)
        return self.memory.get_trials(deepcopy=False, states=done)

    def ask(self, sampler: BaseSampler, params: Mapping[str, Any] | None = None) -> Trial:
        """A new trial: what the sampler proposes, or the parameters given."""
        self.memory.sampler = sampler
        if params is not None:
            self.memory.enqueue_trial(dict(params))
        return self.memory.ask(self.distributions)

    def tell(self, trial: Trial, state: TrialState, values: Sequence[float] | None,
             attributes: Mapping[str, Any], constraints: Mapping[str, float]) -> FrozenTrial:
        """Finish a trial: in memory, and as one line of the journal."""
        for name, value in attributes.items():
            trial.set_user_attr(name, value)
        for name, value in constraints.items():
            trial.set_constraint(name, value)
        told = self.memory.tell(trial, values, state)
        keep = {name: value for name, value in told.system_attrs.items() if name != "fixed_params"}
        self._disk.add_trial(create_trial(
            state=told.state, values=told.values, params=told.params, distributions=told.distributions,
            user_attrs=told.user_attrs, system_attrs=keep))
        return told


@contextmanager
def copied(path: Path) -> Iterator[Path]:
    """What is whole of a journal, for whoever only reads: a search may be writing to it. Raises InputError."""
    if not path.is_file():
        raise InputError(str(path.parent), f"has not been searched; run nas search {path.parent.name}")
    with tempfile.TemporaryDirectory() as folder:
        content = path.read_bytes()
        copy = Path(folder, path.name)
        copy.write_bytes(content[: content.rfind(b"\n") + 1])
        yield copy


def cut_back(path: Path) -> None:
    """Take a last line that was not written to its end off a journal; Optuna could not go on after it."""
    if not path.is_file():
        return
    path.with_name(path.name + ".lock").unlink(missing_ok=True)  # of a process that was killed
    with path.open("rb+") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole != len(content):
            file.truncate(whole)
            os.fsync(file.fileno())


def _open(path: Path, directions: Sequence[StudyDirection]) -> optuna.Study:
    try:
        storage = JournalStorage(JournalFileBackend(str(path)))
        return optuna.create_study(storage=storage, study_name=NAME, directions=list(directions), load_if_exists=True)
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        says = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(str(path), f"is no journal of a search ({says}); put it back, or start anew with "
                                    "--fresh") from None
