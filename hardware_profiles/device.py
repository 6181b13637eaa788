"""A device's description: YAML in this folder, or anywhere a user keeps one."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from hardware_profiles import runtimes, transports
from search_spaces.errors import InputError, did_you_mean
from search_spaces.files.reading import MOST_YAML_BYTES, faults_of, first_fault, parse_yaml, read_text, table

SHIPPED = Path(__file__).parent
SCHEMA_VERSION = 1
PHASES = ("prefill", "decode")
KINDS = {"cpu": 8e9, "gpu": 5e11, "mobile-cpu": 2e9}
"""Type of processor -> rough multiply-adds per second; decides only how many units are attempted."""
PRECISIONS = {"fp32": 4, "bf16": 2, "fp16": 2, "int8": 1}
"""Precision -> bytes per number."""


class _DeviceModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class TimingSettings(_DeviceModel):
    """Settings of the timing protocol; see `hardware_profiles.protocol`."""

    copies: int = Field(4, ge=1, le=64, description="number of distinct copies of a unit in the timed stack")
    least_rounds: int = Field(10, ge=2, description="minimum number of rounds of a workload")
    most_rounds: int = Field(400, ge=2, description="maximum number of rounds")
    tolerance: float = Field(0.01, gt=0, lt=1, description="stop timing a workload at this relative half-width of "
                                                           "its confidence interval")
    calibration: int = Field(16, ge=4, description="number of whole models that calibrate the sum of unit latencies")
    whole_samples: int = Field(3, ge=1, le=100, description="samples per round of each calibration model; "
                                                            "units have one")
    memory: bool = Field(True, description="whether to measure the peak memory of models as well")


class Specification(_DeviceModel):
    """Published figures of an unavailable device, for a roofline estimate."""

    gmacs_per_s: float = Field(gt=0, description="peak multiply-adds per second at the precision, in 10^9")
    gbytes_per_s: float = Field(gt=0, description="memory bandwidth in 10^9 bytes per second")
    launch_us: float = Field(ge=0, description="launch overhead of one kernel, in microseconds")
    efficiency: float = Field(0.5, gt=0, le=1, description="share of the peak that kernels achieve")
    source: str = Field(min_length=1, description="source of the figures")


class Device(_DeviceModel):
    """Everything a latency depends on besides the architecture."""

    schema_version: Literal[1] = Field(description="schema version of this file")
    name: str = Field(min_length=1, description="name of the device in searches, and of its profile folder")
    description: str = Field("", description="description that nas devices prints")
    kind: str = Field(description=f"type of processor: {', '.join(KINDS)}")
    runtime: str = Field(description="software that runs the models; roofline for latencies estimated from a "
                                     "specification")
    options: dict[str, str | int | float | bool] = Field({}, description="options of the runtime")
    threads: int = Field(1, ge=1, description="number of CPU threads")
    precision: str = Field("fp32", description="precision: fp32, bf16, fp16 or int8, if the runtime supports it")
    batch: int = Field(1, ge=1, description="batch size")
    length: int | None = Field(None, ge=1, description="sequence length; default: the space's context")
    past: int | None = Field(
        None, ge=1, description="tokens in the cache when one more is decoded; default: half the length")
    phases: tuple[Literal["prefill", "decode"], ...] = Field(
        ("prefill",), description="prefill reads a whole sequence, decode adds one token")
    transport: dict[str, Any] = Field({"kind": "local"}, description="how to reach the device: a kind and its settings")
    timing: TimingSettings = Field(TimingSettings(), description="how workloads are timed")
    specification: Specification | None = Field(None, description="published specification; with the runtime roofline "
                                                                  "only")

    @field_validator("phases")
    @classmethod
    def _some_phase(cls, phases: tuple[str, ...]) -> tuple[str, ...]:
        if not phases or len(set(phases)) != len(phases):
            raise ValueError("must list prefill, decode or both, without duplicates")
        return phases

    @field_validator("kind", "precision")
    @classmethod
    def _known_word(cls, name: str, info: ValidationInfo) -> str:
        allowed = KINDS if info.field_name == "kind" else PRECISIONS
        if name not in allowed:
            raise ValueError(f"{name!r} is not allowed; allowed: {', '.join(allowed)}")
        return name

    @field_validator("runtime")
    @classmethod
    def _known_runtime(cls, name: str) -> str:
        if name != runtimes.ROOFLINE and name not in runtimes.names():
            raise ValueError(f"{name!r} is not allowed; allowed: {', '.join((*runtimes.names(), runtimes.ROOFLINE))}")
        return name

    @field_validator("transport")
    @classmethod
    def _known_transport(cls, settings: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        kind = settings.get("kind")
        if kind not in transports.names():
            raise ValueError(f"kind {kind!r} is not allowed; allowed: {', '.join(transports.names())}")
        given = {name: value for name, value in settings.items() if name != "kind"}
        try:
            validated = transports.get(str(kind)).SETTINGS.model_validate(given, context=info.context)
            return {"kind": kind, **validated.model_dump()}
        except ValidationError as error:
            raise ValueError(str(first_fault(error))) from None

    @model_validator(mode="after")
    def _fits_together(self) -> Device:
        if (self.runtime == runtimes.ROOFLINE) != (self.specification is not None):
            raise ValueError(f"a specification is allowed only with the runtime {runtimes.ROOFLINE}")
        if self.runtime == runtimes.ROOFLINE:
            return self
        runtime = runtimes.get(self.runtime)
        if self.precision not in runtime.PRECISIONS:
            raise ValueError(f"precision {self.precision!r} is not supported by {self.runtime}; allowed: "
                             f"{', '.join(runtime.PRECISIONS)}")
        unknown = sorted(set(self.options) - set(runtime.OPTIONS))
        if unknown:
            allowed = ", ".join(runtime.OPTIONS) or "none"
            raise ValueError(f"options.{unknown[0]} is not an option of {self.runtime}; allowed: {allowed}")
        if not runtime.SUFFIX and not transports.get(self.transport["kind"]).TRANSPORT.HERE:
            raise ValueError(f"the runtime {self.runtime} runs only in this process; use transport: {{kind: local}}")
        return self

    @property
    def estimated(self) -> bool:
        """Whether its latencies are computed from a specification, not measured."""
        return self.specification is not None

    @property
    def rough_macs_per_s(self) -> float:
        """Rough multiply-adds per second."""
        return KINDS[self.kind]

    def runtime_options(self) -> dict[str, Any]:
        """Options passed to the runtime's functions."""
        return {"threads": self.threads, "precision": self.precision, **self.options}


def shipped_devices() -> tuple[str, ...]:
    """Names of the devices in this folder."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.yaml")))


def load_profile(name_or_path: str | Path) -> Device:
    """A device by its shipped name or from a YAML file.

    Raises:
        InputError: there is none, or its description is invalid; lists all faults with their keys.
    """
    path = Path(name_or_path)
    shipped = SHIPPED / f"{name_or_path}.yaml"
    if path.suffix in (".yaml", ".yml"):
        source = path
    elif "/" not in str(name_or_path) and shipped.is_file():
        source = shipped
    else:
        hint = did_you_mean(str(name_or_path), shipped_devices())
        raise InputError("device", f"{str(name_or_path)!r} is unknown; allowed: a path to a YAML file, or "
                                   f"{', '.join(shipped_devices())}{hint}")
    return parse_device(read_text(source, most=MOST_YAML_BYTES), str(source))


@lru_cache(maxsize=256)
def parse_device(text: str, where: str) -> Device:
    """The device a YAML text describes. Raises InputError with every fault."""
    data = table(parse_yaml(text, where), where)
    try:
        return Device.model_validate(data)
    except ValidationError as error:
        raise InputError(where, faults_of(error)) from None
