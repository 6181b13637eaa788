"""Workloads -> timings on a device; finished rounds are stored and reused by later calls."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hardware_profiles import runtimes, transports
from hardware_profiles.device import Device
from hardware_profiles.profile import Conditions
from hardware_profiles.protocol import Protocol, Run, Timing, machine, summarise
from hardware_profiles.protocol import rounds as run_rounds
from hardware_profiles.provenance import provenance
from hardware_profiles.transports import Job, check_rounds, check_stored
from nas.core.progress import ProgressTask, StageProgress
from nas.core.run_dir import write_text
from nas.core.stopping import Stop, Stopped
from nas.core.timing import sources
from nas.core.timing.compiling import Compiled, Compiler, one_thread, processes
from nas.core.timing.fresh import FreshPool
from nas.core.timing.workloads import Workload
from search_spaces import InputError
from search_spaces import registry as kinds
from search_spaces.files.reading import read_json_lines


@dataclass
class Bench:
    """Times workloads on one device.

    Args:
        folder: keeps compiled files and rounds.
    """

    device: Device
    conditions: Conditions
    folder: Path
    progress: StageProgress = field(default_factory=StageProgress)
    header: dict[str, Any] = field(default_factory=dict)
    """The device's description of itself."""
    spent_s: float = 0.0
    """Seconds of timing in this call, without the rounds of earlier calls."""

    def __post_init__(self) -> None:
        self.runtime = runtimes.get(self.device.runtime)
        self.folder = self.folder.absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        why = self.runtime.missing()
        if why:
            raise InputError(self.device.name, f"the runtime {self.device.runtime} cannot be used here: {why}")
        self.transport = transports.make(self.device.transport, self.device.name)
        self.reached = False
        self.live: dict[str, Run] = {}
        self.compiled: dict[str, Compiled] = {}
        self.took_s: list[float] = []
        self.first_s: list[float] = []
        self.sampled: set[str] = set()
        self.pool: FreshPool | None = None
        self.preparing = ProgressTask()
        self.tick: Callable[[], None] = lambda: None
        """Called after every workload that is prepared and after every round."""

    @property
    def stop(self) -> Stop:
        """Whether the user asked to stop."""
        return self.progress.stop

    def __enter__(self) -> Bench:
        """Use the same compiling processes for all calls of `prepare` until the end of the block."""
        self.pool = FreshPool(processes(), one_thread) if self.runtime.SUFFIX else None
        return self

    def __exit__(self, *_: object) -> None:
        if self.pool is not None:
            self.pool.shutdown(wait=True, cancel_futures=True)
            self.pool = None

    def prepare(self, workloads: Sequence[Workload], until: float = math.inf,
                least: int | None = None) -> list[Workload]:
        """Compile workloads, or load them if the runtime uses modules directly; returns those that are ready.

        Args:
            until: the moment (`time.monotonic`) at which all has to be prepared: what may take longer is left out.
            least: number of workloads, the first ones, that are prepared in any case; by default all.

        Raises:
            Stopped: the user asked to stop.
        """
        self._reach()
        self.preparing = self.progress.task("preparing", len(workloads))
        if self.runtime.SUFFIX:
            compiler = Compiler(self.device, self.conditions, self.folder)
            self.compiled |= compiler.compile_all(workloads, self._compiled, self.stop, lambda: self._in_time(until),
                                                  len(workloads) if least is None else least, self.pool)
        else:
            for i, workload in enumerate(workloads):
                if least is None or i < least or self._in_time(until):
                    self._load(workload)
        if self.stop():
            raise Stopped
        return [ready for ready in workloads if ready.name in self.compiled or ready.name in self.live]

    def _in_time(self, until: float) -> bool:
        return until == math.inf or time.monotonic() + self.unit_s < until

    @property
    def unit_s(self) -> float:
        """Estimated seconds for compiling or loading one workload, from earlier ones.

        The first of a process, which imports libraries too, counts only where there is no other; those that an earlier
        call compiled count where this one has compiled none.
        """
        earlier = [compiled.seconds for compiled in self.compiled.values()]
        return statistics.mean(self.took_s or self.first_s or earlier or [0.0])

    def preparing_s(self, workloads: Iterable[Workload]) -> float:
        """Seconds that preparing workloads would take; nothing for those that are compiled."""
        if not self.runtime.SUFFIX:
            return self.unit_s * sum(workload.name not in self.live for workload in workloads)
        compiler = Compiler(self.device, self.conditions, self.folder)
        return self.unit_s / processes() * sum(compiler.known(workload) is None for workload in workloads)

    def _compiled(self, new: Compiled | None) -> None:
        if new is not None:
            (self.first_s if new.first else self.took_s).append(new.seconds)
        self.preparing.move()
        self.tick()

    def _reach(self) -> None:
        """Check the device once, before minutes of compiling. Raises InputError if it cannot be reached."""
        if self.runtime.SUFFIX and not self.reached:
            self.transport.check(self.device.runtime)
            self.reached = True

    def _load(self, workload: Workload) -> None:
        if not self.stop() and workload.name not in self.live:
            module, inputs = workload.build(self.conditions)
            start = time.monotonic()
            try:
                self.live[workload.name] = self.runtime.load(module, inputs, self.device.runtime_options())
            except (InputError, RuntimeError) as error:
                reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
                raise InputError(str(workload), f"{self.device.runtime} cannot run it: {reason}") from None
            self.took_s.append(time.monotonic() - start)
        self.preparing.move()
        self.tick()

    def time(self, workloads: Sequence[Workload], reference: Workload, budget_s: float,
             purpose: str, often: Mapping[str, int] | None = None,
             late_rounds: int | None = None) -> dict[str, Timing]:
        """The timing of every workload, by name. All have to be prepared.

        Args:
            purpose: distinguishes measurements of the same workloads.
            budget_s: seconds of rounds, those of earlier calls included.
            often: names of workloads that a round samples several times, and how many.
            late_rounds: rounds that are enough once the time is spent; by default as many as always.

        Raises:
            Stopped: the user asked to stop; what was measured is kept.
            InputError: the device cannot be reached, or returns impossible values.
        """
        everything = list(dict.fromkeys((reference, *workloads)))
        timing = self.device.timing
        protocol = Protocol(zlib.crc32(purpose.encode()), budget_s, timing.least_rounds, timing.most_rounds,
                                    timing.tolerance, dict(often or {}), late_rounds)
        rounds = self._rounds(purpose, reference)
        task = self.progress.task("timing", budget_s, counts=False)
        task.say(f"{len(everything)} workloads")

        def take(line: dict[str, Any]) -> None:
            rounds.add(line)
            if "round" in line:
                self.sampled.update(name for name, _ in line["seconds"])
                self.spent_s += float(line["spent_s"])
                task.move_to(rounds.spent_s)
                self.tick()

        if self.runtime.SUFFIX:
            self.transport.run(self.job(everything, reference, protocol, rounds), take, self.stop)
        else:
            take({"versions": self.runtime.versions(), "machine": machine()})
            runs = {workload.name: self.live[workload.name] for workload in everything}
            run_rounds(runs, reference.name, protocol, take, rounds.lines, self.stop)
        self.header = rounds.header
        if self.stop():
            raise Stopped
        task.finish()  # also where all intervals are tight before the time is up
        check_rounds(rounds.lines, reference.name, self.device.name)
        timings = summarise(rounds.lines, reference.name)
        lacking = [workload.name for workload in everything if workload.name not in timings]
        least = timing.least_rounds if late_rounds is None else min(timing.least_rounds, late_rounds)
        if lacking or len(rounds.lines) < least:
            what = f"no timings of {lacking[0]}" if lacking else f"{len(rounds.lines)} of {least} rounds"
            raise InputError(self.device.name, f"returned {what}; rerun the same command to resume")
        return timings

    def _rounds(self, purpose: str, reference: Workload) -> Rounds:
        return Rounds(self.folder / f"{purpose}.jsonl", self.identity(reference.name))

    def timed(self, purpose: str, reference: Workload) -> set[str]:
        """The names of workloads that an earlier call has timed for a purpose."""
        return {name for line in self._rounds(purpose, reference).lines for name, _ in line["seconds"]}

    def rounds_s(self, purpose: str, reference: Workload) -> float:
        """Seconds of rounds that earlier calls have measured for a purpose."""
        return self._rounds(purpose, reference).spent_s

    def forget(self, purpose: str) -> None:
        """Delete the rounds of a recorded measurement, so that the same measurement can be repeated."""
        (self.folder / f"{purpose}.jsonl").unlink(missing_ok=True)

    def alone(self, workload: Workload) -> float:
        """Median milliseconds of a workload run repeatedly, with its weights in the caches."""
        module, inputs = workload.build(self.conditions)
        run = self.runtime.load(module, inputs, self.device.runtime_options())
        return 1e3 * statistics.median(run() for _ in range(20))

    def job(self, workloads: Sequence[Workload], reference: Workload, protocol: Protocol,
            rounds: Rounds) -> Job:
        """The job for the device's transport."""
        return Job(self.folder, self.device.runtime, self.device.runtime_options(),
                   [self.compiled[workload.name].model for workload in workloads], reference.name, protocol,
                   before=tuple(rounds.lines))

    def identity(self, reference: str) -> str:
        """Changes whenever earlier rounds are no longer valid; their workloads may change with the budget."""
        data = [self.device.runtime_options(), self.conditions.model_dump(), self.device.transport, reference,
                provenance(self.device), sources.of_kinds(kinds.registry())]
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


class Rounds:
    """The finished rounds of one measurement, in a file that grows line by line.

    A file of another measurement is restarted; an incomplete line is dropped.
    """

    def __init__(self, path: Path, identity: str) -> None:
        self.path, self.lines, self.header = path, list[dict[str, Any]](), dict[str, Any]()
        known = self._read(identity)
        write_text(path, "".join(json.dumps(line) + "\n" for line in ({"schema_version": 1, "of": identity}, *known)))
        for line in known:
            self._keep(line)

    def _read(self, identity: str) -> list[dict[str, Any]]:
        if not self.path.is_file():
            return []
        remedy = "delete it; its rounds are measured again"
        lines = read_json_lines(self.path, remedy)
        if self.path.stat().st_size == 0 or next(lines)[1].get("of") != identity:
            return []
        return [check_stored(line, f"{self.path}, line {number}", remedy) for number, line in lines]

    def add(self, line: dict[str, Any]) -> None:
        """Keep a line, on disk too."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self._keep(line)

    def _keep(self, line: dict[str, Any]) -> None:
        if "round" in line:
            self.lines.append(line)
        else:
            self.header.update(line)

    @property
    def spent_s(self) -> float:
        """Seconds of timing so far."""
        return sum(float(line["spent_s"]) for line in self.lines)
