"""The content of a measured profile besides its table: conditions, machine and calibration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hardware_profiles.device import Device, load_profile, shipped_devices
from hardware_profiles.transports import STORED, safe_name
from search_spaces.errors import Command, InputError, did_you_mean
from search_spaces.files.reading import faults_of, read_yaml, table
from search_spaces.units import SUBLAYERS, Unit

ROOT = Path("runs") / "profiles"
SCHEMA_VERSION = 1


class _ProfileModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Calibration(_ProfileModel):
    """Milliseconds of a model = overhead + the sum over its units of scale x price.

    Args:
        scales: by group of units, see `group`.
        common: the scale of groups that none of the models had.
        error: the relative residual error as a standard deviation, from leave-one-out predictions.
        n: number of whole models it was fitted on; 0 means that unit prices are summed without scaling.
    """

    overhead_ms: float = 0.0
    scales: dict[str, float] = {}
    common: float = Field(1.0, gt=0)
    error: float = Field(0.0, ge=0)
    n: int = Field(0, ge=0)


class Memory(_ProfileModel):
    """Peak bytes of a model = base + weights x the bytes of its weights + moved x the most that one unit moves."""

    base: float
    weights: float
    moved: float
    error: float = Field(ge=0)
    n: int = Field(ge=1)


class Conditions(_ProfileModel):
    """Conditions of all latencies of a profile.

    Args:
        length: tokens of the sequence; of source and target for seq2seq.
        past: tokens in the cache when one more is decoded.
    """

    batch: int = Field(ge=1)
    length: int = Field(ge=1)
    past: int = Field(ge=1)


class Stored(_ProfileModel):
    """The file `profile.yaml` of a measured profile."""

    schema_version: Literal[1] = 1
    device: Device
    conditions: Conditions
    spaces: tuple[str, ...] = ()
    recorded: dict[str, str] = {}
    calibration: dict[str, Calibration] = {}
    """By phase: fitted on the whole models of all spaces, for architectures outside these spaces."""
    by_space: dict[str, dict[str, Calibration]] = {}
    """By space, in the order of profiling, and by phase: fitted on the whole models of that space."""
    memory: Memory | None = None
    seen: tuple[str, ...] = ()
    """Keys of the whole models used for calibration."""
    whole: dict[str, Any] = {}
    """Per phase a regression on whole models, where units could not be timed alone."""

    def to_yaml(self) -> str:
        """The file's text."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=120)


def folder_of(profile_or_path: str | Path) -> Path:
    """The folder of a measured profile: given itself, or by a device's name or YAML file under `runs/profiles`."""
    path = Path(profile_or_path)
    if path.suffix in (".yaml", ".yml"):
        return named_folder(load_profile(path).name)
    return path if (path / "profile.yaml").is_file() or len(path.parts) > 1 else named_folder(str(path))


def named_folder(name: str) -> Path:
    """The profile folder of a device name, whether it exists or not."""
    return ROOT / safe_name(name)


def load_device(name_or_path: str) -> Device:
    """A device by its shipped name, from a YAML file, or from the existing profile of that name.

    Raises:
        InputError: there is none.
    """
    folder = named_folder(name_or_path)
    described = name_or_path in shipped_devices() or Path(name_or_path).suffix in (".yaml", ".yml")
    if described or not (folder / "profile.yaml").is_file():
        return load_profile(name_or_path)
    return read_stored(folder).device


def stored_names() -> tuple[str, ...]:
    """Names of the profiles in `runs/profiles`."""
    return tuple(sorted(file.parent.name for file in ROOT.glob("*/profile.yaml")))


def measured_folder(profile_or_path: str | Path) -> Path:
    """The folder of an existing profile.

    Raises:
        InputError: the device is known but not profiled, or there is no such device.
    """
    requested, folder, known = str(profile_or_path), folder_of(profile_or_path), stored_names()
    if (folder / "profile.yaml").is_file():
        return folder
    here = f"; profiles here: {', '.join(known)}" if known else ""
    if requested in shipped_devices() or Path(requested).suffix in (".yaml", ".yml"):
        command = Command("profile", requested, space="SPACE")
        raise InputError(requested, f"has no measured profile{here}; create one with {command}")
    if folder != named_folder(requested):
        raise InputError(requested, f"is not a profile folder: it contains no profile.yaml{here}; create one "
                                    f"there with {Command('profile', 'DEVICE', space='SPACE', out=requested)}")
    raise InputError(requested, "is unknown: not a measured profile, a shipped device or a YAML file"
                            f"{did_you_mean(requested, (*known, *shipped_devices()))}{here}; shipped devices: "
                            f"{', '.join(shipped_devices())}")


def read_stored(folder: Path) -> Stored:
    """The description of a measured profile. Raises InputError."""
    path = folder / "profile.yaml"
    if not path.is_file():
        raise InputError(str(folder), "is not a profile folder: it contains no profile.yaml",
                         f"run {Command('profile')}")
    remedy = f"run {Command('profile')} again"
    data = table(read_yaml(path, remedy), str(path), remedy)
    try:
        return Stored.model_validate(data, context=STORED)
    except ValidationError as error:
        raise InputError(str(path), faults_of(error)) from None


def group(unit: Unit, reused: bool = False) -> str:
    """The calibration group of a unit: its kind for sub-layers, its role for the rest.

    Args:
        reused: whether another layer used the same weights just before, so that they are in the caches.
    """
    name = unit.block.kind if unit.role in SUBLAYERS else unit.role
    return f"{name} again" if reused else name


def scale(calibration: Calibration, unit: Unit, reused: bool = False) -> float:
    """What a unit's price is multiplied by."""
    first = calibration.scales.get(group(unit), calibration.common)
    return calibration.scales.get(group(unit, True), first) if reused else first


def differences(stored: Stored, today: Mapping[str, str], device: Device) -> list[str]:
    """Differences from the conditions of the measurement, one sentence each.

    Args:
        today: current versions and processor; empty if unknown.
    """
    lines = []
    for name, now in today.items():
        before = stored.recorded.get(name)
        if before is not None and before != now:
            lines.append(f"measured with {name} {before}; here it is {now}")
    for name in ("runtime", "threads", "precision", "batch"):
        before, now = getattr(stored.device, name), getattr(device, name)
        if before != now:
            lines.append(f"measured with {name} {before}; the device file has {now}")
    return lines
