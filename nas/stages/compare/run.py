"""The stage `compare`: quality, cost and measured latency of subnets and imported models."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hardware_profiles.profile import folder_of
from hardware_profiles.transports import Waiting
from nas import tasks
from nas.core.evaluation import place, score
from nas.core.measures import Measure
from nas.core.pricing import Prices, load_devices
from nas.core.progress import StageProgress
from nas.core.resolve import DEFAULT_LENGTH
from nas.core.stopping import Stopped
from nas.core.subnet import Subnet, finite
from nas.core.timing.subnets import measure
from nas.stages.compare.request import CompareRequest
from nas.stages.compare.result import COSTS, ComparedModel, CompareResult
from nas.stages.compare.writing import write_files
from search_spaces import Fault, InputError
from search_spaces.errors import Option


def run(request: CompareRequest, progress: StageProgress) -> CompareResult:
    """Evaluate, count and time the models, and write the table and the plot.

    Raises:
        InputError: a model cannot be opened or is given twice, models have different tasks, or a device is not
            profiled or cannot be used.
        Stopped: the user asked to stop; timings are kept.
    """
    subnets = _opened(request.subnets)
    task, seq_len = _task(subnets), _length(subnets, request.seq_len)
    load_devices(request.device)
    notes: list[str] = []
    models = []
    for label, subnet in subnets.items():
        if progress.stop():
            raise Stopped
        progress.status(f"evaluating {label} ...")
        models.append(_compared(label, subnet, request, seq_len, notes))
    latencies, waiting = _timed(list(subnets.values()), models, request, progress)
    evaluated = {name for model in models for name in model.metrics}
    metrics = {name: more for name, more in (tasks.get(task).metrics if task else {}).items() if name in evaluated}
    notes += _incomparable(subnets, models)
    result = CompareResult(models, task, request.split, metrics, latencies, seq_len, notes, waiting)
    return replace(result, files=write_files(result, request.out))


def _opened(names: Sequence[str]) -> dict[str, Subnet]:
    """Subnets by labels. Raises InputError with all that cannot be opened or are given twice."""
    subnets: dict[Path, Subnet] = {}
    faults: list[Fault] = []
    for name in names:
        try:
            subnet = Subnet.open(name)
        except InputError as error:
            faults += [Fault("", f"{error.where}: {fault.message}") for fault in error.faults]
            continue
        if subnet.path.resolve() in subnets:
            faults.append(Fault("", f"{name} is given twice; give every model once"))
        subnets[subnet.path.resolve()] = subnet
    if faults:
        raise InputError("", faults)
    counts = Counter(path.name for path in subnets)
    return {path.name if counts[path.name] == 1 else os.path.relpath(path): subnet for path, subnet in subnets.items()}


def _task(subnets: Mapping[str, Subnet]) -> str:
    """The task of all models that have one; empty where none has. Raises InputError if they have several."""
    known = {subnet.facts.task: label for label, subnet in subnets.items() if subnet.facts.task}
    if len(known) > 1:
        listed = ", ".join(f"{label} is for {task}" for task, label in known.items())
        raise InputError("", f"models of different tasks cannot be compared: {listed}; give models of one task")
    return next(iter(known), "")


def _length(subnets: Mapping[str, Subnet], seq_len: int | None) -> int:
    """The sequence length for counting. Raises InputError if it is longer than a context."""
    shortest = min(subnets.items(), key=lambda named: named[1].arch.context)
    label, context = shortest[0], shortest[1].arch.context
    if seq_len is not None and seq_len > context:
        raise InputError(Option("seq_len"), f"{seq_len} is not allowed; allowed: 1 to {context}, the context of "
                                            f"{label}")
    return seq_len or min(DEFAULT_LENGTH, context)


def _compared(label: str, subnet: Subnet, request: CompareRequest, seq_len: int, notes: list[str]) -> ComparedModel:
    priced = Prices({}, seq_len).all_of_model(subnet.model())
    metrics: dict[str, float | None] = {}
    try:
        config, prepared = subnet.run().config(), subnet.prepared()
    except InputError as error:
        notes.append(f"{label} is not evaluated: {error}")
    else:
        metrics = finite(score(place(subnet.model(), config.training), subnet.arch, tasks.get(config.task), prepared,
                               config.training, request.split, True, request.limit))
    return ComparedModel(label, subnet.path, metrics, {name: priced[name] for name in COSTS})


def _timed(subnets: Sequence[Subnet], models: Sequence[ComparedModel], request: CompareRequest,
           progress: StageProgress) -> tuple[list[Measure], list[str]]:
    """Add measured latencies to the models; what was measured, and what the user has to do."""
    measures: list[Measure] = []
    waiting: list[str] = []
    for device in {folder_of(device).resolve(): device for device in request.device}.values():
        try:
            timed = measure(subnets, device, request.phase, request.budget_s, progress)
        except Waiting as turn:  # not an error: the user has to act
            waiting.append(str(turn))
            continue
        measures.append(timed[0].measure)
        for model, timing in zip(models, timed):
            model.latency_ms[timing.measure.name] = timing.timing.ms
    return measures, waiting


def _incomparable(subnets: Mapping[str, Subnet], models: Sequence[ComparedModel]) -> Iterator[str]:
    """Notes about figures that are not comparable."""
    judged = [subnets[model.label] for model in models if model.metrics]
    if len({tuple(sorted(_source(subnet).items())) for subnet in judged}) > 1:
        yield "the models were evaluated on different data, so their metrics are not comparable"
    if judged and not judged[0].facts.labels and len({subnet.tokenizer().to_str() for subnet in judged}) > 1:
        yield "the models have different tokenizers, so metrics per token are not comparable"


def _source(subnet: Subnet) -> dict[str, str]:
    """The source of its data, without the options for reading."""
    return {name: value for name, value in subnet.facts.data.items() if name not in ("tokenizer", "vocab_size")}
