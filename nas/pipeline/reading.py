"""Reads and checks a pipeline file; reports all faults together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ValidationError

from nas.pipeline.checking import faults
from nas.pipeline.config import DevicePart, ExportPart, PickPart, PipelineConfig, RetrainPart
from search_spaces import Fault, InputError
from search_spaces.errors import Command, did_you_mean
from search_spaces.files.reading import MOST_YAML_BYTES, not_allowed, parse_yaml, read_text

NEEDED = {"run": "first", "space": "lm-tiny", "task": "lm"}
"""Placeholders for missing keys while the rest is checked; checks that read them are skipped."""
PARTS: dict[str, type[BaseModel]] = {"devices": DevicePart, "pick": PickPart, "retrain": RetrainPart,
                                     "export": ExportPart}


def read_pipeline(path: Path, restart: bool = False) -> PipelineConfig:
    """A config from its file, checked. Raises InputError with all faults.

    Args:
        restart: whether a run of the same name is archived first.
    """
    if not path.exists():
        raise InputError(str(path), f"does not exist; {Command('init')} writes one")
    return parse_pipeline(read_text(path, most=MOST_YAML_BYTES), str(path), restart)


def parse_pipeline(text: str, where: str, restart: bool = False) -> PipelineConfig:
    """A config from its text, checked. Raises InputError with all faults."""
    data, problems = parse_yaml(text, where), list[Fault]()
    try:
        config = PipelineConfig.model_validate(data)
    except ValidationError as error:
        problems += _faults(error)
        config = _rest(data, where, problems)
    problems += faults(config, restart, {fault.key.partition(".")[0] for fault in problems})
    if problems:
        raise InputError(where, problems)
    return config


def _rest(data: object, where: str, problems: list[Fault]) -> PipelineConfig:
    """A config of the valid parts. Raises InputError if there is none."""
    wrong = {fault.key.partition(".")[0] for fault in problems}
    kept = {key: value for key, value in data.items() if str(key) not in wrong} if isinstance(data, dict) else None
    try:
        return PipelineConfig.model_validate(None if kept is None else {**NEEDED, **kept})
    except ValidationError:
        raise InputError(where, problems) from None


def _faults(error: ValidationError) -> Iterator[Fault]:
    for item in error.errors():
        key = ".".join(map(str, item["loc"]))
        if item["type"] == "extra_forbidden":
            model = PARTS.get(str(item["loc"][0]), PipelineConfig) if len(item["loc"]) > 1 else PipelineConfig
            hint = did_you_mean(str(item["loc"][-1]), model.model_fields)
            yield Fault(key, f"unknown key{hint}", "" if hint else f"{Command('init')} writes a file with all of them")
        elif item["type"] == "value_error":
            yield Fault(key, item["msg"].removeprefix("Value error, "))
        elif item["type"] == "missing":
            yield Fault(key, "is missing")
        else:
            yield Fault(key, not_allowed(item["input"], item["msg"]))
