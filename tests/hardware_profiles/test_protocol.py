"""The timing protocol, on workloads whose seconds are known."""

from __future__ import annotations

import ast
import inspect
import json
import random
from pathlib import Path

import pytest

from hardware_profiles.protocol import Protocol, random_inputs, rounds, summarise


class Fake:
    """A workload that says how long it took instead of taking it; a shared machine slows all down."""

    def __init__(self, seconds: float, machine: Machine, noise: float = 0.0, seed: int = 0) -> None:
        self.seconds, self.machine, self.noise, self.rng = seconds, machine, noise, random.Random(seed)
        self.calls = 0

    def __call__(self) -> float:
        self.calls += 1
        return self.seconds * self.machine.slowness() * (1 + self.rng.random() * self.noise)


class Machine:
    """Runs at full speed, or slower from some call on."""

    def __init__(self, slow_from: int = 10**9, factor: float = 1.0) -> None:
        self.calls, self.slow_from, self.factor = 0, slow_from, factor

    def slowness(self) -> float:
        self.calls += 1
        return self.factor if self.calls > self.slow_from else 1.0


def run(workloads: dict[str, Fake], protocol: Protocol, before: list | None = None) -> list[dict]:
    lines: list[dict] = list(before or [])
    rounds(workloads, "reference", protocol, lines.append, list(lines))
    return lines


def order(line: dict) -> list[str]:
    return [name for name, _ in line["seconds"]]


def fakes(machine: Machine, noise: float = 0.0, **seconds: float) -> dict[str, Fake]:
    return {name: Fake(value, machine, noise, seed=i) for i, (name, value) in enumerate(seconds.items())}


def test_times_are_those_of_the_workloads() -> None:
    lines = run(fakes(Machine(), reference=0.004, a=0.001, b=0.010), Protocol())
    found = summarise(lines, "reference")
    assert {name: round(timing.ms, 6) for name, timing in found.items()} == {"reference": 4.0, "a": 1.0, "b": 10.0}


def test_noise_only_adds_time_and_the_low_quantile_forgets_it() -> None:
    lines = run(fakes(Machine(), 0.5, reference=0.004, a=0.001), Protocol(tolerance=1e-9, most_rounds=200))
    assert summarise(lines, "reference")["a"].ms == pytest.approx(1.1, abs=0.05)


def test_a_machine_that_slows_down_is_corrected_for() -> None:
    def slowed(corrected: bool) -> float:
        machine = Machine(slow_from=120, factor=1.5)
        lines = run(fakes(machine, reference=0.004, a=0.002, b=0.003), Protocol(least_rounds=60, most_rounds=60))
        late = lines[40:]  # all of these ran slowly
        return summarise(lines[:10] + late if corrected else late, "reference")["b"].ms
    assert slowed(corrected=False) == pytest.approx(4.5)
    assert slowed(corrected=True) == pytest.approx(3.0, rel=0.01)


def test_every_round_has_another_order_and_the_same_seed_the_same() -> None:
    def orders(seed: int) -> list[list[str]]:
        names = {chr(97 + i): 0.002 for i in range(12)}
        lines = run(fakes(Machine(), reference=0.002, **names), Protocol(seed=seed, least_rounds=4, most_rounds=4))
        return [order(line) for line in lines]
    assert orders(0) == orders(0) != orders(1)
    assert len({tuple(names) for names in orders(0)}) == 4
    assert all(names.count("reference") >= 3 for names in orders(0))


def test_a_tight_workload_leaves_the_rounds() -> None:
    machine = Machine()
    workloads = fakes(machine, reference=0.002, still=0.002) | {"noisy": Fake(0.002, machine, 0.9, 5)}
    lines = run(workloads, Protocol(least_rounds=10, most_rounds=40, tolerance=0.01))
    last = {name for name, _ in lines[-1]["seconds"]}
    assert last == {"reference", "noisy"} and len(lines) == 40


def test_rounds_end_when_all_are_tight() -> None:
    assert len(run(fakes(Machine(), reference=0.002, a=0.003), Protocol(least_rounds=7))) == 7


def test_no_time_left_still_gives_the_least_rounds() -> None:
    lines = run(fakes(Machine(), 0.9, reference=0.002, a=0.003), Protocol(budget_s=0.0, least_rounds=5))
    assert len(lines) == 5


def test_finished_rounds_count_when_it_goes_on() -> None:
    protocol = Protocol(least_rounds=6, most_rounds=6)
    whole = run(fakes(Machine(), reference=0.002, a=0.003), protocol)
    again = run(fakes(Machine(), reference=0.002, a=0.003), protocol, before=whole[:4])
    assert [line["round"] for line in again] == list(range(6))
    assert [order(line) for line in again] == [order(line) for line in whole]


def test_short_workloads_run_several_times_in_a_row() -> None:
    workloads = fakes(Machine(), reference=0.002, short=0.0001)
    run(workloads, Protocol(least_rounds=2, most_rounds=2))
    assert workloads["short"].calls == 3 + 2 * (1 + 10)


def test_a_workload_may_be_sampled_several_times_a_round() -> None:
    protocol = Protocol(least_rounds=4, most_rounds=4, often={"whole": 3})
    lines = run(fakes(Machine(), 0.9, reference=0.002, unit=0.002, whole=0.003), protocol)
    assert all((order(line).count("unit"), order(line).count("whole")) == (1, 3) for line in lines)
    found = summarise(lines, "reference")
    assert (found["unit"].n, found["whole"].n) == (4, 12)
    assert Protocol(**json.loads(json.dumps(protocol._asdict()))) == protocol


def test_rounds_of_one_sample_each_still_count() -> None:
    before = run(fakes(Machine(), reference=0.002, whole=0.003), Protocol(least_rounds=2, most_rounds=2))
    after = run(fakes(Machine(), 0.9, reference=0.002, whole=0.003),
                Protocol(least_rounds=4, most_rounds=4, often={"whole": 3}), before)
    assert summarise(after, "reference")["whole"].n == 2 + 2 * 3


def test_more_time_goes_on_and_less_takes_what_is_there() -> None:
    machine, few = Machine(), Protocol(least_rounds=3, most_rounds=3)
    before = run(fakes(machine, 0.9, reference=0.002, a=0.003), few)
    assert run(fakes(machine, 0.9, reference=0.002, a=0.003), few._replace(budget_s=0.0), before) == before
    more = run(fakes(machine, 0.9, reference=0.002, a=0.003), few._replace(most_rounds=5), before)
    assert len(more) == 5 and more[:3] == before


def test_a_workload_that_joins_later_gets_its_rounds() -> None:
    machine, protocol = Machine(), Protocol(least_rounds=3, most_rounds=3)
    before = run(fakes(machine, 0.9, reference=0.002, a=0.003), protocol)
    after = run(fakes(machine, 0.9, reference=0.002, a=0.003, b=0.003), protocol, before)
    assert [set(order(line)) for line in after[3:]] == [{"reference", "b"}] * 3


def test_the_file_runs_on_python_3_9() -> None:
    text = Path(inspect.getfile(Protocol)).read_text("utf-8")
    ast.parse(text, feature_version=(3, 9))
    tops = {name.name for node in ast.parse(text).body if isinstance(node, ast.Import) for name in node.names}
    assert not tops & {"numpy", "torch", "hardware_profiles", "search_spaces"}


def test_inputs_are_those_described() -> None:
    tokens, states = random_inputs([{"dtype": "int64", "shape": [2, 3], "high": 5},
                                            {"dtype": "float32", "shape": [2, 4]}])
    assert tokens.shape == (2, 3) and tokens.dtype.name == "int64" and tokens.max() < 5
    assert states.shape == (2, 4) and states.dtype.name == "float32"
