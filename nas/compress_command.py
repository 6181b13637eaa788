"""`nas compress`: which technique was asked for, and what is said of the result."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from rich.console import Console, Group, RenderableType
from rich.text import Text

from nas.compress import techniques
from nas.compress._base import Technique
from nas.compress.stage import Compressed, compress, size_on_disk
from nas.progress import interruptible
from nas.subnet import Subnet
from nas.tables import table
from search_spaces import InputError


@dataclass(frozen=True)
class Asked:
    """What the user gave: options by their names, of which those are left out that were not given."""

    options: Mapping[str, Any]
    settings: Mapping[str, str] = field(default_factory=dict)
    out: str | None = None

    def technique(self) -> Technique:
        """What was asked for. Raises InputError where it is not exactly one technique with what belongs to it."""
        known = techniques()
        named = [name for name in self.options if name in known]
        if len(named) != 1:
            allowed, given = (" or ".join(f"--{name}" for name in names) for names in (sorted(known), named))
            raise InputError("nas compress", f"takes exactly one of {allowed}; given: {given or 'none'}")
        found = known[named[0]]
        for name in self.options:
            owner = next((each for each in known.values() if name in each.options), found)
            if owner is not found:
                raise InputError(f"--{name}", f"belongs to --{owner.name}, not to --{found.name}")
        fields = {name: self.options[name] for name in found.options if name in self.options}
        try:
            return found.model_validate({**fields, **({found.value: self.options[found.name]} if found.value else {})})
        except ValidationError as error:
            first = error.errors()[0]
            option = found.name if first["loc"][0] == found.value else first["loc"][0]
            raise InputError(f"--{option}", f"{first['input']} is not allowed: {first['msg']}") from None

    def command(self, name: str) -> str:
        """The command that asks for it."""
        words = ["nas", "compress", name]
        for option, value in self.options.items():
            words += [f"--{option}"] if value is True else [f"--{option}", str(value)]
        for key, value in self.settings.items():
            words += ["--set", f"{key}={value}"]
        return shlex.join([*words, *(["--out", self.out] if self.out else [])])


def run(name: str, asked: Asked, console: Console) -> Compressed | None:
    """Compress a subnet; None where it was stopped before the end. Raises InputError."""
    technique = asked.technique()
    with interruptible(console) as stop:
        found = compress(name, technique, asked.settings, asked.out, console, stop)
    if found is None:
        console.print(f"stopped; go on with the same command: {asked.command(name)}", markup=False, soft_wrap=True)
    return found


def result_table(found: Compressed) -> RenderableType:
    """The result beside the original for a reader."""
    names = list(found.after.facts.metrics)
    columns = (*names, "params", "bytes on disk", "of the original")
    made = table("subnet", *columns, right=columns)
    before, after = (size_on_disk(each.path) for each in (found.before, found.after))
    for each, size in ((found.before, before), (found.after, after)):
        made.add_row(each.path.resolve().name, *(_number(each, name) for name in names),
                     f"{each.facts.costs.get('params', math.nan):,.0f}", f"{size:,}", f"{size / before:.1%}")
    told = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in found.after.facts.made[-1].settings.items())
    says = (f"{told}: {found.after.path}", f"ship it: nas export {found.after.path} --format onnx")
    return Group(made, Text("\n".join(says), no_wrap=True, overflow="ignore"))


def _number(subnet: Subnet, metric: str) -> str:
    value = subnet.facts.metrics.get(metric)
    return f"{math.nan if value is None else value:.4f}"
