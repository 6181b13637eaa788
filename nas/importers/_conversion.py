"""Converts checkpoints to plain models and back, as importers declare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from nas.importers._base import Importer, ImportWishes, NotExpressibleError, StockModel
from nas.importers._checkpoint import CONFIG, Checkpoint
from nas.importers._config import PretrainedSettings
from nas.importers._registry import by_model_type, registry
from search_spaces import Architecture, InputError
from search_spaces.architecture import Layer
from search_spaces.errors import Fault
from supernet import Transformer
from supernet.room import check_room, tensor_bytes


@dataclass(frozen=True)
class ImportedModel:
    """A checkpoint as a plain model.

    Args:
        left_out: tensors of the checkpoint that the model does not need.
    """

    model: Transformer
    stock: StockModel
    left_out: tuple[str, ...]


def convert(checkpoint: Checkpoint, wishes: ImportWishes) -> ImportedModel:
    """The plain model of a checkpoint.

    Raises:
        InputError: the config has an unsupported value, a tensor is missing or left over, or shapes contradict it.
    """
    where = str(checkpoint.folder / CONFIG)
    importer = by_model_type(checkpoint.config.get("model_type"), where)
    names = checkpoint.names - _meaningless(importer, checkpoint)
    try:
        stock = importer.read(PretrainedSettings(checkpoint.config, where), names, wishes)
    except InputError:
        raise
    except ValueError as error:  # numbers that contradict each other, such as a width and its heads
        raise InputError(where, str(error)) from None
    left_out = _checked_names(checkpoint, stock, names)
    with torch.device("meta"):
        model = Transformer(stock.arch)
    check_room(where, tensor_bytes(model.state_dict().values()), "the tensors of this config", torch.device("cpu"),
               f"the numbers in {CONFIG} may be damaged")
    model.to_empty(device="cpu").eval()  # which computes the tables that are not stored
    _fill(model, checkpoint, stock)
    return ImportedModel(model, stock, left_out)


def _meaningless(importer: Importer, checkpoint: Checkpoint) -> set[str]:
    return {name for name in importer.zeros if name in checkpoint.names and not checkpoint.tensor(name).any()}


def _checked_names(checkpoint: Checkpoint, stock: StockModel, names: frozenset[str]) -> tuple[str, ...]:
    """The tensors that are left out. Raises InputError with those that are missing or unknown."""
    needed = {link.theirs for link in stock.links}
    missing = [Fault(name, "is missing") for name in sorted(needed - names)]
    others = sorted(names - needed)
    left_out = tuple(name for name in others if name.startswith(stock.ignored))
    extra = [Fault(name, f"is not a tensor of {stock.cls} with this config") for name in others
             if name not in left_out]
    if missing or extra:
        raise InputError(str(checkpoint.folder), [*missing, *extra])
    return left_out


def _fill(model: Transformer, checkpoint: Checkpoint, stock: StockModel) -> None:
    """Copy every tensor. Raises InputError with all whose shapes contradict the config."""
    wanted, faults = model.state_dict(), []
    left = set(wanted)
    for link in stock.links:
        theirs = checkpoint.tensor(link.theirs)
        try:
            parts = link.change.read(theirs)
        except RuntimeError:
            parts = (theirs,)
        shapes = [tuple(wanted[name].shape) for name in link.ours]
        if [tuple(part.shape) for part in parts] != shapes:
            expected = " and ".join(map(str, dict.fromkeys(shapes)))
            faults.append(Fault(link.theirs, f"has the shape {tuple(theirs.shape)}, but {CONFIG} requires "
                                             f"{expected}"))
            continue
        for name, part in zip(link.ours, parts):
            wanted[name].copy_(part)
        left -= set(link.ours)
    if faults:
        raise InputError(str(checkpoint.folder), faults)
    assert not left, f"the importer of {stock.cls} sets no {', '.join(sorted(left))}"


def stock_models(arch: Architecture, first: str = "") -> Iterator[tuple[Importer, dict[str, Any], StockModel]]:
    """The stock classes that can hold an architecture, each with its config, which reads back as the same architecture.

    Slots do not count: a model that keeps the layers 0, 2 and 5 of a space is one of three layers.

    Args:
        first: the `model_type` to try first.
    """
    arch = _renumbered(arch)
    known = [(name, importer) for importer in registry().values() for name in importer.model_types]
    for model_type, importer in sorted(known, key=lambda pair: pair[0] != first):
        try:
            config = importer.write(arch, model_type)
            head = _head(arch)
            wishes = ImportWishes(head, None)
            stock = importer.read(PretrainedSettings(config, model_type), frozenset(), wishes)
        except (NotExpressibleError, InputError, KeyError, ValueError):
            continue
        if stock.arch == arch:
            yield importer, config, stock


def _head(arch: Architecture) -> str:
    if arch.family != "encoder":
        return "lm"
    return "pooler" if arch.head.kind == "features" and arch.head["pooler"] else arch.head.kind


def _renumbered(arch: Architecture) -> Architecture:
    """The same layers in other slots: each is the index of the first layer that uses it."""
    stacks: dict[str, Any] = {}
    for stack, layers in arch.stacks.items():
        mixers, ffns = _first_uses(layers)
        stacks[stack] = tuple(replace(layer, mixer_slot=mixers[layer.mixer_slot], ffn_slot=ffns[layer.ffn_slot])
                              for layer in layers)
    return replace(arch, **stacks)


def _first_uses(layers: Sequence[Layer]) -> tuple[dict[int, int], dict[int, int]]:
    """Slot -> index of the first layer that uses it, of mixers and of feed-forwards."""
    last = range(len(layers))[::-1]  # the first use overwrites later ones
    return {layers[i].mixer_slot: i for i in last}, {layers[i].ffn_slot: i for i in last}


def _renamed(tensors: Mapping[str, Tensor], arch: Architecture) -> dict[str, Tensor]:
    """The tensors of a model under the names that they have in the renumbered one."""
    slots = {stack: _first_uses(layers) for stack, layers in arch.stacks.items()}
    renamed = {}
    for name, tensor in tensors.items():
        stack, _, rest = name.partition(".")
        slot, _, part = rest.partition(".")
        if stack in slots and slot.isdecimal():
            mixers, ffns = slots[stack]
            name = f"{stack}.{(ffns if part.startswith('ffn.') else mixers)[int(slot)]}.{part}"
        renamed[name] = tensor
    return renamed


def stock_tensors(model: Transformer, importer: Importer, stock: StockModel) -> Mapping[str, Tensor]:
    """The tensors of a stock class that hold a model. Raises NotExpressibleError where they cannot."""
    ours = _renamed(model.state_dict(), model.arch)
    tensors = {link.theirs: link.change.write([ours[name] for name in link.ours]).contiguous() for link in stock.links}
    tensors |= {name: torch.zeros(shape(stock.arch)) for name, shape in importer.zeros.items() if name not in tensors}
    return tensors
