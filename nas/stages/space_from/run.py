"""The stage `space-from`: a space file whose largest architecture is a given model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nas.core.space_around import space_name, space_yaml
from nas.core.subnet import Subnet
from nas.importers import with_task_head
from nas.stages.space_from.request import SpaceFromRequest
from nas.stages.space_from.similarity import similar_layers
from search_spaces import Architecture, InputError, SearchSpace
from search_spaces.errors import CheckFailedError, Option
from search_spaces.files.loader import space_from_text
from search_spaces.files.writing import whole
from supernet.compression.quantised import dequantised


@dataclass(frozen=True)
class SpaceFromResult:
    """The written space.

    Args:
        subnet: the model it is around.
        needed: options that training the space from this model needs, besides a name.
    """

    path: Path
    space: SearchSpace
    subnet: str
    needed: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        return {"file": str(self.path), "name": self.space.name, "architectures": self.space.size()}


def run(request: SpaceFromRequest) -> SpaceFromResult:
    """Write the space.

    Raises:
        InputError: the file exists, or the model cannot be the largest of a space file.
        CheckFailedError: the largest architecture of the space is not the model.
    """
    subnet = Subnet.open(request.subnet)
    arch = _with_classes(subnet, request)
    name = space_name(subnet.path.resolve().name)
    path = request.out or Path(f"{name}.yaml")
    if path.exists():
        raise InputError(str(path), f"exists; delete it, or name another file with {Option('out')}")
    similar = similar_layers(dequantised(subnet.model())) if request.searches_sharing else {}
    text = space_yaml(arch, name, request.around(similar))
    space = space_from_text(text, str(path))
    if space.largest() != arch:
        raise CheckFailedError(str(path), "the largest architecture of the space would not be the model; nothing is "
                                          "written")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as temporary:
            temporary.write_text(text, "utf-8")
    except OSError as error:
        raise InputError(str(path), f"cannot be written ({error.strerror})") from None
    return SpaceFromResult(path, space, request.subnet, _needed(subnet, request))


def _needed(subnet: Subnet, request: SpaceFromRequest) -> dict[str, Any]:
    """A task if the model has none, or a new head; data if it has no run."""
    task = {} if subnet.facts.task and request.classes is None else {"task": "TASK"}
    return {**task, **({"data": {"train": "FILE"}} if task or not subnet.facts.run else {})}


def _with_classes(subnet: Subnet, request: SpaceFromRequest) -> Architecture:
    if request.classes is None:
        return subnet.arch
    if subnet.arch.family != "encoder":
        raise InputError(str(Option("classes")), f"applies to encoders only; {request.subnet} is of the family "
                                                 f"{subnet.arch.family}")
    return with_task_head(subnet.arch, "classifier", request.classes, subnet.facts.model_type)
