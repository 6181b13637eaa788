"""The stage `export`: exports a subnet and compares it with the plain model before it is written."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from nas.core.progress import StageProgress
from nas.core.run_dir import json_text, locked
from nas.core.subnet import Subnet, check_free
from nas.stages.export import formats
from nas.stages.export.checking import MOST_LOSS, Case, largest_difference, losses, sample
from nas.stages.export.decoding import decoder_run, start_of
from nas.stages.export.folder import write_card
from nas.stages.export.job import ExportJob, Run
from nas.stages.export.padding import padded
from nas.stages.export.programs import check_decoder
from nas.stages.export.reading import label_scale
from nas.stages.export.request import TOLERANCE, ExportRequest
from search_spaces import InputError
from search_spaces.errors import Option
from search_spaces.files.writing import delete, whole

DECODED = 6
"""Inputs that a decoder is compared on: it reads some of them token by token."""
RECORD = "export.json"
"""Facts file in every export folder. A folder without it is never replaced."""


@dataclass(frozen=True)
class Exported:
    """An export and its facts."""

    name: str
    folder: Path
    record: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"format": self.name, "folder": str(self.folder), **self.record}


def run(request: ExportRequest, progress: StageProgress) -> Exported:
    """Write a subnet in a format, atomically; an earlier export is replaced.

    Raises:
        InputError: the format is not available here, does not support a block, or differs from the plain model.
    """
    request.check_available()
    subnet = Subnet.open(request.subnet)
    request.check_decoder(subnet.arch)
    job = ExportJob(subnet, request.sequence_length(subnet.arch), request.int8, not request.no_decoder)
    cost: dict[str, str] = {}
    if request.pad:
        wider = padded(job.model, str(subnet.path), subnet.facts.model_type)
        job, cost = replace(job, padded=wider.model), wider.cost
    if hasattr(formats.get(request.format), "call"):
        check_decoder(job)
    folder = request.out or subnet.path / "exports" / request.name
    if request.out and not folder.exists():
        check_free(folder)
    if folder.exists() and not (folder / RECORD).is_file():
        raise InputError(str(folder), "exists and is not an export; delete it, or name another folder with "
                                      f"{Option('out')}")
    try:
        with locked(subnet.path, "subnet"), progress.breakable():
            progress.status(f"exporting to {request.name}")
            with _replaced(folder) as temporary:
                record = _write(job, request, temporary, folder, cost)
            facts = Subnet.open(str(subnet.path)).facts
            kept = {**record, "folder": str(request.out)} if request.out else record
            subnet.write_facts(facts.model_copy(update={"exports": {**facts.exports, request.name: kept}}))
    except (OSError, SafetensorError) as error:
        at = folder if os.access(subnet.path, os.W_OK) else subnet.path
        raise InputError(str(at), f"cannot be written ({getattr(error, 'strerror', None) or error})") from None
    return Exported(request.name, folder, record)


def _write(job: ExportJob, request: ExportRequest, folder: Path, target: Path,
           more: dict[str, str]) -> dict[str, Any]:
    """The files, the comparison and the record. Raises InputError if it is not good enough."""
    module = formats.get(request.format)
    facts = module.write(job, folder)
    usage = module.usage(job, str(target)) if hasattr(module, "usage") else []
    write_card(job, folder, usage)
    files = sorted(path.name for path in folder.iterdir())
    record = {"files": files, "bytes": sum((folder / file).stat().st_size for file in files),
              "inputs": list(job.names), **label_scale(job.subnet), **_sizes(module, job), **facts,
              **more, **_compared(module, job, request, folder), "usage": usage}
    (folder / RECORD).write_text(json_text({"schema_version": 1, **record}) + "\n", "utf-8")
    return record


def _sizes(module: Any, job: ExportJob) -> dict[str, Any]:
    if module.DYNAMIC:
        return {"batch": "any", "length": f"{job.least_length} to {job.arch.context}"}
    return {"batch": 1, "length": job.length}


def _compared(module: Any, job: ExportJob, request: ExportRequest, folder: Path) -> dict[str, Any]:
    """How the export compares with the plain model. Raises InputError if that is not good enough."""
    compared = sample(job, module.DYNAMIC, request.int8)
    try:
        judge = _as_good if request.int8 else _same
        facts = judge(module.load(job, folder), job, request, compared.cases)
        facts |= _decoder(module, judge, job, request, folder, compared.cases)
    except InputError:
        raise
    except Exception as error:  # every runtime raises its own types
        reason = " ".join(str(error).split())[:200]
        path = str(job.subnet.path)
        raise InputError(path, f"the exported {request.name} model does not run: {reason}") from error
    return {**facts, "compared_on": compared.what}


def _decoder(module: Any, judge: Callable[..., dict[str, Any]], job: ExportJob, request: ExportRequest,
             folder: Path, cases: Sequence[Case]) -> dict[str, Any]:
    """How the decoder with its cache compares, where one is written."""
    if not hasattr(module, "call") or not job.decodes:
        return {}
    run = decoder_run(job, lambda name: module.call(folder, name), not module.DYNAMIC,
                      start_of(job, module.LEAST_PAST))
    assert run is not None
    figures = judge(run, job, request, cases[:DECODED])
    return {f"decoder_{name}": figures[name] for name in ("largest_difference", "loss") if name in figures}


def _same(run: Run, job: ExportJob, request: ExportRequest, cases: Sequence[Case]) -> dict[str, Any]:
    worst = largest_difference(run, job, cases)
    allowed = getattr(formats.get(request.format), "TOLERANCE", TOLERANCE)
    if not worst <= allowed:
        raise InputError(str(job.subnet.path),
                         f"the exported {request.name} model differs from the plain model by {worst:.1e} of the "
                         "largest logit; "
                         f"allowed: {allowed:g}; nothing is written")
    return {"largest_difference": worst, "tolerance": allowed}


def _as_good(run: Run, job: ExportJob, request: ExportRequest, cases: Sequence[Case]) -> dict[str, Any]:
    most = MOST_LOSS if request.max_loss_increase is None else request.max_loss_increase
    before, after = losses(run, job, cases)
    if not after - before <= most:
        raise InputError(str(job.subnet.path),
                         f"the loss of the exported {request.name} model is {after:.4f} instead of {before:.4f}; "
                         f"allowed increase: {most:g} ({Option('max_loss_increase')}); nothing is written")
    return {"loss": after, "plain_loss": before, "most_loss_increase": most}


@contextmanager
def _replaced(folder: Path) -> Iterator[Path]:
    """As `whole`, a folder to fill; an older one is deleted when the new one is complete."""
    old, alone = folder.with_name(f".{folder.name}.old"), not folder.parent.exists()
    folder.parent.mkdir(parents=True, exist_ok=True)
    if old.exists() and not folder.exists():  # killed between the two names
        old.rename(folder)
    for left in folder.parent.glob(f".{glob.escape(folder.name)}.*"):  # by a process that was killed
        delete(left)
    try:
        with whole(folder) as temporary:
            temporary.mkdir()
            yield temporary
            if folder.exists():
                folder.rename(old)
    except BaseException:
        if old.exists() and not folder.exists():
            old.rename(folder)
        if alone:
            with suppress(OSError):  # it is not empty
                folder.parent.rmdir()
        raise
    delete(old)
