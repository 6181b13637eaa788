"""The Optuna study of a search: sampled in memory, stored in a journal of finished trials.

Unfinished trials are never on disk, so a killed search loses only those.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial
from pydantic import BaseModel, Field

from nas.core.measures import Measure
from search_spaces import InputError, SearchSpace
from search_spaces.errors import Command, Option, shown
from search_spaces.files.reading import checked, complete_lines, read_bytes, read_json_lines

NAME = "search"
"""Name of the study in its journal."""
REMEDY = f"restore the file, or restart with {Option('fresh')}"


class _JournalLine(BaseModel):
    """Schema of a journal line, checked before Optuna reads it, which does not validate values."""

    op_code: int
    worker_id: str
    study_id: int = 0
    state: int = 0
    values: tuple[Annotated[float, Field(allow_inf_nan=False)], ...] | None = None
    params: dict[str, Annotated[int, Field(ge=0)]] = {}
    distributions: dict[str, str] = {}
    system_attr: dict[str, tuple[str, ...]] = {}
    system_attrs: dict[str, Any] = {}
    intermediate_values: dict[str, float] = {}


class _Attributes(BaseModel):
    """The attributes of a stored trial."""

    key: str
    costs: dict[str, Annotated[float, Field(allow_inf_nan=False)]]
    metrics: dict[str, float] = {}
    interval: tuple[float, float] | None = None
    seen: Annotated[int, Field(ge=0)] = 0
    reason: str = ""


class Study:
    """The trials of one search, in memory and on disk.

    Args:
        path: of the journal; created if it is missing.
        names: of the objectives.
        maximise: whether more of an objective is better, for each.

    Raises:
        InputError: the journal is damaged, or has other objectives.
    """

    def __init__(self, path: Path, names: Sequence[str], maximise: Sequence[bool],
                 distributions: Mapping[str, BaseDistribution]) -> None:
        self.path, self.distributions = path, dict(distributions)
        directions = [StudyDirection.MAXIMIZE if more else StudyDirection.MINIMIZE for more in maximise]
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        remove_incomplete_line(path)
        path.with_name(path.name + ".lock").unlink(missing_ok=True)  # of a killed process: a run has one search at once
        self._disk = _open(path, directions)
        if self._disk.metric_names is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                self._disk.set_metric_names(list(names))
        known = self._disk.metric_names
        if known != list(names) or self._disk.directions != directions:
            raise InputError(str(path), f"has the objectives {', '.join(map(str, known or ()))}, not "
                                        f"{', '.join(names)}; restart with {Option('fresh')}")
        self._check(names)
        self.memory = optuna.create_study(directions=directions)
        try:
            self.memory.add_trials(self._disk.get_trials(deepcopy=False))
        except ValueError as error:  # Optuna checks what it would have written itself
            raise InputError(str(path), f"is damaged ({error})", REMEDY) from None

    def _check(self, names: Sequence[str]) -> None:
        for trial in self._disk.get_trials(deepcopy=False):
            where = f"{self.path}, trial {trial.number}"
            checked(_Attributes, trial.user_attrs, where, REMEDY)
            if trial.params.keys() != self.distributions.keys() or not all(
                    trial.params[name] in distribution.choices  # type: ignore[attr-defined]  # all genes are choices
                    for name, distribution in self.distributions.items()):
                raise InputError(str(self.path), f"trial {trial.number} does not belong to this search", REMEDY)
            values = trial.values or ()
            if trial.state == TrialState.COMPLETE and not (len(values) == len(names) and np.isfinite(values).all()):
                raise InputError(where, f"lacks a finite value for one of {', '.join(names)}", REMEDY)

    def check_measures(self) -> None:
        """Raises InputError if an evaluated trial lacks a metric or a cost that is an objective."""
        names = self._disk.metric_names or []
        for trial in self.finished:
            known = {**trial.user_attrs["costs"], **trial.user_attrs.get("metrics", {})}
            lacking = [name for name in names if name not in known]
            if trial.state == TrialState.COMPLETE and lacking:
                raise InputError(f"{self.path}, trial {trial.number}", f"has no {lacking[0]}", REMEDY)

    @property
    def finished(self) -> list[FrozenTrial]:
        """The finished trials, oldest first."""
        done = (TrialState.COMPLETE, TrialState.FAIL, TrialState.PRUNED)
        return self.memory.get_trials(deepcopy=False, states=done)

    def ask(self, sampler: BaseSampler, params: Mapping[str, Any] | None = None) -> Trial:
        """A new trial, from the sampler or with the given parameters."""
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
        finished = self.memory.tell(trial, values, state)
        keep = {name: value for name, value in finished.system_attrs.items() if name != "fixed_params"}
        self._disk.add_trial(create_trial(
            state=finished.state, values=finished.values, params=finished.params, distributions=finished.distributions,
            user_attrs=finished.user_attrs, system_attrs=keep))
        return finished


def open_study(path: Path, objectives: Sequence[Measure], space: SearchSpace) -> Study:
    """The study of a search, each of whose evaluated trials has all objectives. Raises InputError."""
    study = Study(path, [measure.name for measure in objectives], [measure.maximise for measure in objectives],
                  space.distributions())
    study.check_measures()
    return study


def read_trials(path: Path, objectives: Sequence[Measure], space: SearchSpace) -> list[FrozenTrial]:
    """The finished trials of a journal, also while another process adds to it. Raises InputError."""
    if not path.is_file():
        raise InputError(str(path.parent), f"has not been searched; run {Command('search', path.parent.name)}")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, path.name)
        copy.write_bytes(complete_lines(read_bytes(path, REMEDY)))
        return open_study(copy, objectives, space).finished


def remove_incomplete_line(path: Path) -> None:
    """Remove an incomplete last line from an append-only file, if there is one: nothing could be appended after it."""
    if not path.is_file():
        return
    with path.open("rb+") as file:
        content = file.read()
        n_bytes = len(complete_lines(content))
        if n_bytes != len(content):
            file.truncate(n_bytes)
            os.fsync(file.fileno())


def _open(path: Path, directions: Sequence[StudyDirection]) -> optuna.Study:
    """The study of a journal. Raises InputError if a line of it is damaged."""
    if path.is_file():
        for number, line in read_json_lines(path, REMEDY):
            checked(_JournalLine, line, f"{path}, line {number}", REMEDY)
    try:
        storage = JournalStorage(JournalFileBackend(str(path)))
        return optuna.create_study(storage=storage, study_name=NAME, directions=list(directions), load_if_exists=True)
    except OSError:
        raise
    except Exception as error:  # Optuna applies lines unchecked: a damaged one can raise anything
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(str(path), f"is not a journal of a search ({shown(reason)})", REMEDY) from None
