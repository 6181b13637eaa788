"""Workloads -> timings on a device, wherever it is; what was measured is kept and counts when it is called again."""

from __future__ import annotations

import hashlib
import json
import statistics
import sys
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hardware_profiles import measure, runtimes, transports
from hardware_profiles.profile import Device
from hardware_profiles.provenance import provenance
from hardware_profiles.stored import Conditions
from hardware_profiles.transports._base import Job
from hardware_profiles.transports._rounds import check_rounds
from nas.profiling import sources
from nas.profiling.compiling import Compiled, Compiler, processes
from nas.profiling.workloads import Workload
from nas.run_dir import write_text
from search_spaces import InputError, kinds

Stop = Callable[[], bool]


@dataclass
class Watching:
    """Who is told how a measurement goes on: nobody."""

    def compiling(self, total: int) -> None:
        """So many workloads are compiled next."""

    def compiled(self) -> None:
        """One more is compiled."""

    def timing(self, budget_s: float, workloads: int) -> None:
        """So many workloads are timed next, for so long."""

    def timed(self, spent_s: float) -> None:
        """One more round; so much was spent on all."""

    def timing_ended(self) -> None:
        """All is timed, be it before the time was up."""


@dataclass
class Bench:
    """Times workloads on one device.

    Args:
        folder: keeps compiled files and rounds.
    """

    device: Device
    conditions: Conditions
    folder: Path
    watching: Watching = field(default_factory=Watching)
    stop: Stop = lambda: False
    header: dict[str, Any] = field(default_factory=dict)
    """What the device said of itself."""
    spent_s: float = 0.0
    """Seconds of timing in this call; rounds of earlier ones are not among them."""

    def __post_init__(self) -> None:
        self.runtime = runtimes.get(self.device.runtime)
        self.folder = self.folder.absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        why = self.runtime.missing()
        if why:
            raise InputError(self.device.name, f"the runtime {self.device.runtime} cannot be used here: {why}")
        transport = transports.get(self.device.transport["kind"])
        settings = {name: value for name, value in self.device.transport.items() if name != "kind"}
        self.transport = transport.Transport(transport.Settings(**settings), self.device.name)
        self.reached = False
        self.live: dict[str, measure.Run] = {}
        self.compiled: dict[str, Compiled] = {}
        self.loading_s: list[float] = []
        self.sampled: set[str] = set()

    def prepare(self, workloads: Sequence[Workload]) -> None:
        """Compile workloads, or load them where the runtime takes modules as they are. Raises Stopped."""
        self._reach()
        self.watching.compiling(len(workloads))
        if self.runtime.SUFFIX:
            compiler = Compiler(self.device, self.conditions, self.folder)
            self.compiled |= compiler.compile_all(workloads, self.watching.compiled, self.stop)
        else:
            for workload in workloads:
                self._load(workload)
        if self.stop():
            raise Stopped

    def _reach(self) -> None:
        """Ask for the device once, before minutes of compiling. Raises InputError where it cannot be reached."""
        if self.runtime.SUFFIX and not self.reached:
            self.transport.check(self.device.runtime)
            self.reached = True

    def _load(self, workload: Workload) -> None:
        if not self.stop():
            module, inputs = workload.build(self.conditions)
            start = time.monotonic()
            try:
                self.live[workload.name] = self.runtime.load(module, inputs, self.device.runtime_options())
            except (InputError, RuntimeError) as error:
                says = (str(error).strip().splitlines() or [type(error).__name__])[0]
                raise InputError(str(workload), f"{self.device.runtime} cannot run it: {says}") from None
            self.loading_s.append(time.monotonic() - start)
            self.watching.compiled()

    def compilable(self, seconds: float) -> int:
        """How many workloads can be compiled or loaded in that time, going by those that were."""
        taken = [each.seconds / processes() for each in self.compiled.values()] + self.loading_s  # one after the other
        return int(seconds / statistics.mean(taken)) if any(taken) else sys.maxsize

    def time(self, workloads: Sequence[Workload], reference: Workload, budget_s: float,
             purpose: str, often: Mapping[str, int] | None = None) -> dict[str, measure.Timing]:
        """The timing of every workload, by name. All have to be prepared.

        Args:
            purpose: tells measurements of the same workloads apart.
            often: names of workloads that a round samples several times, and how many.

        Raises:
            Stopped: it was asked to end; what was measured is kept.
            InputError: the device cannot be reached, or says what cannot be true.
        """
        everything = list(dict.fromkeys((reference, *workloads)))
        timing = self.device.timing
        protocol = measure.Protocol(zlib.crc32(purpose.encode()), budget_s, timing.least_rounds, timing.most_rounds,
                                    timing.tolerance, dict(often or {}))
        rounds = self._rounds(purpose, reference)
        self.watching.timing(budget_s, len(everything))

        def take(line: dict[str, Any]) -> None:
            rounds.add(line)
            if "round" in line:
                self.sampled.update(name for name, _ in line["seconds"])
                self.spent_s += float(line["spent_s"])
                self.watching.timed(rounds.spent_s)

        if self.runtime.SUFFIX:
            self.transport.run(self.job(everything, reference, protocol, rounds), take, self.stop)
        else:
            take({"versions": self.runtime.versions(), "machine": measure.machine()})
            runs = {workload.name: self.live[workload.name] for workload in everything}
            measure.rounds(runs, reference.name, protocol, take, rounds.lines, self.stop)
        self.header = rounds.header
        if self.stop():
            raise Stopped
        self.watching.timing_ended()
        check_rounds(rounds.lines, reference.name, self.device.name)
        found = measure.summarise(rounds.lines, reference.name)
        lacking = [workload.name for workload in everything if workload.name not in found]
        if lacking or len(rounds.lines) < timing.least_rounds:
            what = f"no times of {lacking[0]}" if lacking else f"{len(rounds.lines)} of {timing.least_rounds} rounds"
            raise InputError(self.device.name, f"gave {what}; call again to go on")
        return found

    def _rounds(self, purpose: str, reference: Workload) -> Rounds:
        return Rounds(self.folder / f"{purpose}.jsonl", self._identity(reference))

    def timed(self, purpose: str, reference: Workload) -> set[str]:
        """The names of workloads that an earlier call has timed for a purpose."""
        return {name for line in self._rounds(purpose, reference).lines for name, _ in line["seconds"]}

    def forget(self, purpose: str) -> None:
        """Drop the rounds of a measurement that is written down: the same one asked for again is made anew."""
        (self.folder / f"{purpose}.jsonl").unlink(missing_ok=True)

    def alone(self, workload: Workload, runs: int = 20) -> float:
        """Milliseconds of a workload run over and over, its weights hot in the caches: the median."""
        module, inputs = workload.build(self.conditions)
        run = self.runtime.load(module, inputs, self.device.runtime_options())
        return 1e3 * statistics.median(run() for _ in range(runs))

    def job(self, workloads: Sequence[Workload], reference: Workload, protocol: measure.Protocol,
            rounds: Rounds) -> Job:
        """What the device's transport is given."""
        return Job(self.folder, self.device.runtime, self.device.runtime_options(),
                   [self.compiled[workload.name].model for workload in workloads], reference.name, protocol,
                   before=tuple(rounds.lines))

    def _identity(self, reference: Workload) -> str:
        """Changes whenever earlier rounds do not fit any more; what they were of may change with the budget."""
        data = [self.device.runtime_options(), self.conditions.model_dump(), self.device.transport, reference.name,
                provenance(self.device), sources.of_kinds(kinds.registry())]
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


class Stopped(Exception):  # noqa: N818 - no error
    """The user asked to end; what was measured is kept."""


class Rounds:
    """The finished rounds of one measurement, in a file that grows line by line.

    A file of another measurement is started anew; a line that was cut off is dropped.
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
        found = []
        for text in self.path.read_text("utf-8", errors="replace").splitlines():
            try:
                found.append(dict(json.loads(text)))
            except ValueError:
                break
        return found[1:] if found and found[0].get("of") == identity else []

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
