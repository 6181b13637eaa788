"""Checks what is available on this machine, and how to install what is missing."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import torch

from hardware_profiles import runtimes, transports
from hardware_profiles.device import load_profile, shipped_devices
from hardware_profiles.profile import folder_of
from nas.core.progress import StageProgress
from nas.core.stopping import Stopped
from nas.stages.doctor.request import DoctorRequest
from search_spaces.errors import InputError, Option

NOT_FOR_USERS = ("dev", "docs")


@dataclass(frozen=True)
class Finding:
    """One checked item.

    Args:
        available: `yes`, `no`, or empty if neither applies.
        message: the result, or what to run to get it.
    """

    group: str
    what: str
    available: str
    message: str


def run(request: DoctorRequest, progress: StageProgress) -> list[Finding]:
    """Check everything. Starts nothing; of the network, only the address of a Ray cluster is contacted."""
    findings: list[Finding] = []
    for part in (_machine, _accelerators, _runtimes, _devices, _extras, _cluster, _tools):
        if progress.stop():
            raise Stopped
        findings += part()
    return findings


def _machine() -> Iterator[Finding]:
    yield Finding("this machine", "program", "", f"paretoformer {version('paretoformer')}, Python "
                                                 f"{platform.python_version()}, torch {version('torch')}")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    yield Finding("this machine", "processor", "", f"{cores} cores, {memory:.0f} GiB of memory")
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    yield Finding("this machine", "disk", "yes" if free > 2 else "no", f"{free:.0f} GiB free for runs/")


def _accelerators() -> Iterator[Finding]:
    if not torch.accelerator.is_available():
        yield Finding("accelerator", "none", "", "training and searches run on the CPU; to use an accelerator, install "
                                                 "a CUDA, ROCm, XPU or MPS build of torch")
        return
    kind = torch.accelerator.current_accelerator()
    for index in range(torch.accelerator.device_count()):
        name = torch.cuda.get_device_name(index) if torch.cuda.is_available() else str(kind)
        yield Finding("accelerator", f"{kind}:{index}", "yes", name)


def _runtimes() -> Iterator[Finding]:
    for name in runtimes.names():
        runtime = runtimes.get(name)
        why = runtime.missing()
        versions = "" if why else ", ".join(f"{part} {number}" for part, number in runtime.versions().items())
        yield Finding("runtimes", name, "no" if why else "yes", why or versions)


def _devices() -> Iterator[Finding]:
    for name in shipped_devices():
        if (folder_of(name) / "profile.yaml").is_file():
            kind = "estimated" if load_profile(name).estimated else "measured"
            yield Finding("profiles", name, "yes", f"{kind}: {folder_of(name)}")


def _extras() -> Iterator[Finding]:
    """Optional parts of the program, as its own package lists them."""
    wanted: dict[str, list[str]] = {}
    for line in requires("paretoformer") or ():
        match = re.match(r"([\w.-]+).*extra == ['\"]([\w-]+)['\"]", line)
        if match and match[2] not in NOT_FOR_USERS and match[1] != "paretoformer":
            wanted.setdefault(match[2], []).append(match[1])
    for extra, packages in sorted(wanted.items()):
        lacking = [name for name in packages if not _installed(name)]
        message = f"{', '.join(lacking)} missing; run pip install 'paretoformer[{extra}]'" if lacking else \
            ", ".join(f"{name} {version(name)}" for name in packages)
        yield Finding("extras", extra, "no" if lacking else "yes", message)


def _installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


def _cluster() -> Iterator[Finding]:
    """Ray's package, and a cluster: at RAY_ADDRESS, or of this machine."""
    if not _installed("ray"):
        yield Finding("Ray", "package", "no", "not installed; run pip install ray")
        return
    yield Finding("Ray", "package", "yes", f"ray {version('ray')}; {Option('ray')} local starts a cluster for a "
                                           "command")
    from nas.core.ray_address import START, check_answers, local_address

    named, here = os.environ.get("RAY_ADDRESS"), local_address()
    for source, address in (("RAY_ADDRESS", named), ("this machine", here)):
        if not address:
            continue
        try:
            check_answers(address)
        except InputError as error:
            yield Finding("Ray", "cluster", "no", f"{source}: {error.faults[0].message}")
        else:
            yield Finding("Ray", "cluster", "yes", f"{source}: {address} answers; use it with {Option('ray')} "
                                                   f"{'auto' if source == 'RAY_ADDRESS' or not named else address}")
    if not named and not here:
        yield Finding("Ray", "cluster", "no", f"RAY_ADDRESS is not set, and Ray is not running here; {START}")


def _tools() -> Iterator[Finding]:
    """The programs that transports need."""
    for transport in map(transports.get, transports.names()):
        if transport.TOOL:
            there = shutil.which(transport.TOOL)
            use = f"profiles {transport.HELP}" if there else f"not found; needed to profile {transport.HELP}"
            yield Finding("tools", transport.TOOL, "yes" if there else "no", use)
