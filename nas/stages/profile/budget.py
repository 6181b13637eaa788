"""The time budget of a profile: everything from its start to the written table, compiling included."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, Field

from nas.core.durations import rounded_up
from nas.core.run_dir import write_json
from nas.core.timing.compiling import processes
from nas.stages.profile.selection import TIMING_SHARE, Selection
from search_spaces import InputError
from search_spaces.errors import Option
from search_spaces.files.reading import checked, read_json

SAVE_EVERY_S = 1.0
TOLERANCE = 1.1
"""A budget is refused if the minimum takes this many times as long."""


class _Chosen(BaseModel):
    """The workloads of a phase, and the budget they were chosen for."""

    budget_s: float
    workloads: list[str]


class _Saved(BaseModel):
    """What is kept of a budget between calls."""

    of: str = ""
    spent_s: float = Field(0.0, ge=0, allow_inf_nan=False)
    chosen: dict[str, _Chosen] = {}


@dataclass
class Budget:
    """A number of seconds that all calls for one profile share.

    Args:
        seconds: the budget.
        path: the file that stores the spent time, so that a resumed profile counts it.
        identity: what the spent time was for; the file of another one is ignored.
    """

    seconds: float
    path: Path | None = None
    identity: str = ""
    start: float = field(default_factory=lambda: time.monotonic())
    before_s: float = 0.0
    """Spent by earlier calls."""
    chosen: dict[str, _Chosen] = field(default_factory=dict)
    """By phase: the workloads that an earlier call chose, and the budget it chose them for."""

    def __post_init__(self) -> None:
        self._saved = self.start
        known = self._read()
        if known.of == self.identity:
            self.before_s, self.chosen = known.spent_s, known.chosen

    @property
    def resumed(self) -> bool:
        """Whether an earlier call has begun this profile."""
        return self.before_s > 0

    @property
    def spent_s(self) -> float:
        """Seconds of this call."""
        return time.monotonic() - self.start

    def earlier(self, phase: str) -> Collection[str] | None:
        """The names of the workloads to time where an earlier call chose them with at least this budget."""
        known = self.chosen.get(phase)
        return known.workloads if known and known.budget_s >= self.seconds else None

    def choose(self, phase: str, names: Collection[str]) -> None:
        """Store the selected workloads, because a resumed call must time the same ones."""
        before = self.chosen[phase].budget_s if phase in self.chosen else 0.0
        self.chosen[phase] = _Chosen(budget_s=max(self.seconds, before), workloads=sorted(names))
        self.save()

    def tick(self) -> None:
        """Save the spent time, at most once per second."""
        if time.monotonic() - self._saved >= SAVE_EVERY_S:
            self.save()

    def save(self) -> None:
        """Save the spent time."""
        self._saved = time.monotonic()
        if self.path is not None:
            saved = _Saved(of=self.identity, spent_s=self.before_s + self.spent_s, chosen=self.chosen)
            write_json(self.path, {"schema_version": 1, **saved.model_dump()})

    def forget(self) -> None:
        """Do not count this call: it did not start a profile."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
        self.path = None

    def _read(self) -> _Saved:
        """The saved state; empty if the file is damaged, in which case earlier time is not counted."""
        try:
            return checked(_Saved, read_json(self.path) if self.path is not None else {}, "")
        except InputError:
            return _Saved()


def too_short(budget_s: float, least_s: float, what: str) -> str:
    """Why a budget does not suffice for the minimum of a profile; empty if it does."""
    if least_s <= TOLERANCE * budget_s:
        return ""
    return (f"{budget_s:g}s is too short: profiling {what} takes at least about {rounded_up(least_s)} here, including "
            "compilation")


@dataclass(frozen=True)
class PhaseTime:
    """The time of one phase.

    Args:
        share: of what is left of the budget now.
        n_phases: phases that are not profiled yet, this one included.
        may_refuse: whether a budget that is too short is an error; otherwise it is extended.
    """

    budget: Budget
    share: float
    n_phases: int
    may_refuse: bool = True
    start: float = field(default_factory=lambda: time.monotonic())

    @property
    def end(self) -> float:
        """The moment (`time.monotonic`) at which its table has to be written."""
        before_s = self.budget.before_s + self.start - self.budget.start
        return self.start + self.share * max(self.budget.seconds - before_s, 0.0)

    def check_least(self, phase_s: float, memory_s: float, what: str) -> str:
        """Compare the budget with the remaining minimum; returns a note if it was extended, or nothing.

        A started profile is always finished, whatever the time.

        Raises:
            InputError: the budget is too short, and nothing was measured yet.
        """
        least_s = self.budget.spent_s + self.n_phases * phase_s + memory_s
        why = too_short(self.budget.seconds, least_s, what)
        if not why or self.budget.resumed:
            return ""
        if self.may_refuse:
            self.budget.forget()
            raise InputError(Option("budget"), f"{why}; compiled files are kept")
        self.budget.seconds = least_s
        return f"budget: {why}; extended to this time"

    def plan(self, selected: Selection, least_s: float, memory_s: float) -> str:
        """A sentence about the use of the time."""
        bench, left = selected.bench, max(self.end - time.monotonic(), 0.0)
        must_s = bench.preparing_s(selected.must)
        per_unit_s = bench.unit_s / (processes() if bench.runtime.SUFFIX else 1)
        optional = selected.optional(TIMING_SHARE * left)
        room = max((1 - TIMING_SHARE) * (left - must_s - memory_s), 0.0)
        more = optional[: int(room / per_unit_s)] if per_unit_s and bench.preparing_s(optional) > room else optional
        n = selected.n_units + sum(workload in selected.units for workload in more)
        compiling = min(must_s + per_unit_s * len(more), left)
        word = "compiling" if bench.runtime.SUFFIX else "loading"
        return (f"{selected.phase}: {left:.0f} s of the budget left: about {compiling:.0f} s for {word} and "
                f"{memory_s:.0f} s for memory; about {n} of {len(selected.works)} units are measured, the rest are "
                "interpolated or already known")
