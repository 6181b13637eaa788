"""`nas doctor`: what this machine can do, and how to get what it lacks."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import torch
from rich.console import RenderableType
from rich.text import Text

from hardware_profiles import runtimes
from hardware_profiles.profile import load_profile, shipped_devices
from hardware_profiles.stored import folder_of
from nas.tables import table

NOT_FOR_USERS = ("dev", "docs")
TOOLS = {"ssh": "profiles devices over the network", "adb": "profiles Android devices"}
STYLES = {"yes": "green", "no": "yellow", "": ""}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Args:
        able: `yes`, `no`, or nothing where it is neither.
        says: what was found, or what to run to get it.
    """

    group: str
    what: str
    able: str
    says: str


def examine() -> list[Finding]:
    """Look at everything; nothing is started and nobody is asked over the network."""
    return [*_machine(), *_accelerators(), *_runtimes(), *_devices(), *_extras(), *_cluster(), *_tools()]


def data() -> list[dict[str, Any]]:
    """The findings for a program."""
    return [asdict(each) for each in examine()]


def doctor_table(rows: list[dict[str, Any]]) -> RenderableType:
    """The findings for a reader."""
    made = table("", "", "here", "")
    before = ""
    for row in rows:
        group = row["group"] if row["group"] != before else ""
        before = row["group"]
        made.add_row(Text(group, style="bold"), row["what"], Text(row["able"], style=STYLES[row["able"]]),
                     Text(row["says"]))
    return made


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
        yield Finding("accelerator", "none", "", "training and searches run on the processor; a CUDA, ROCm, XPU or MPS "
                                                 "build of torch uses what it finds")
        return
    kind = torch.accelerator.current_accelerator()
    for index in range(torch.accelerator.device_count()):
        name = torch.cuda.get_device_name(index) if torch.cuda.is_available() else str(kind)
        yield Finding("accelerator", f"{kind}:{index}", "yes", name)


def _runtimes() -> Iterator[Finding]:
    for name in runtimes.names():
        why = runtimes.get(name).missing()
        yield Finding("runtimes", name, "no" if why else "yes", why or _versions(name))


def _versions(runtime: str) -> str:
    return ", ".join(f"{name} {number}" for name, number in runtimes.get(runtime).versions().items())


def _devices() -> Iterator[Finding]:
    for name in shipped_devices():
        if (folder_of(name) / "profile.yaml").is_file():
            kind = "estimated" if load_profile(name).estimated else "measured"
            yield Finding("profiles", name, "yes", f"{kind}: {folder_of(name)}")


def _extras() -> Iterator[Finding]:
    """Optional parts of the program, as its own package lists them."""
    wanted: dict[str, list[str]] = {}
    for line in requires("paretoformer") or ():
        found = re.match(r"([\w.-]+).*extra == ['\"]([\w-]+)['\"]", line)
        if found and found[2] not in NOT_FOR_USERS and found[1] != "paretoformer":
            wanted.setdefault(found[2], []).append(found[1])
    for extra, packages in sorted(wanted.items()):
        lacking = [name for name in packages if not _installed(name)]
        says = f"{', '.join(lacking)} missing; run pip install 'paretoformer[{extra}]'" if lacking else \
            ", ".join(f"{name} {version(name)}" for name in packages)
        yield Finding("extras", extra, "no" if lacking else "yes", says)


def _installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


def _cluster() -> Iterator[Finding]:
    address = os.environ.get("RAY_ADDRESS")
    running = Path("/tmp/ray/ray_current_cluster").is_file()  # noqa: S108 - where Ray writes it
    if address or running:
        yield Finding("Ray", "cluster", "yes", f"{address or 'this machine belongs to one'}: use it with --ray auto")
    else:
        yield Finding("Ray", "cluster", "no", f"ray {version('ray')}, none running here; --ray local starts one for a "
                                              "command, docs/cluster.md says how to start a lasting one")


def _tools() -> Iterator[Finding]:
    for name, use in TOOLS.items():
        path = shutil.which(name)
        yield Finding("tools", name, "yes" if path else "no", f"{use}" if path else f"not found; it {use}")
