"""How important the channels, heads and layers of a plain model are, on calibration batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from search_spaces.errors import InputError
from search_spaces.units import plan
from supernet.batch import Batch
from supernet.declared import Product, declared_matrices
from supernet.inference import run_model
from supernet.layout import TensorEntry
from supernet.store import unit_entries
from supernet.train.losses import label_loss, labelled
from supernet.train.ordering.groups import WIDTH, AxisGroup
from supernet.transformer import Transformer


@dataclass(frozen=True)
class AxisPlace:
    """An axis of a group in a plain model: the parameter, its finer shape, and the axis of that, or `span` axes."""

    parameter: str
    entry: TensorEntry
    axis: int
    block: int
    span: int

    @property
    def owner(self) -> str:
        """The module that holds the parameter."""
        return self.parameter.rpartition(".")[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The finer shape of the parameter."""
        return self.entry.layout.shape or self.entry.shape

    @property
    def inputs(self) -> tuple[int, ...]:
        """The axes that the parameter is summed over."""
        return tuple(axis % len(self.shape) for axis in self.entry.layout.inputs)

    def items(self, values: Tensor) -> Tensor:
        """The mean of values in the finer shape of the parameter, for each item of the group."""
        return self._means(values.view(self.shape), self.axis)

    def input_items(self, values: Tensor) -> Tensor:
        """The same of values that the parameter is multiplied with."""
        shape = [self.shape[axis] for axis in self.inputs]
        return self._means(values.view(shape), self.inputs.index(self.axis))

    def _means(self, values: Tensor, axis: int) -> Tensor:
        flat = values.flatten(axis, axis + self.span - 1).movedim(axis, 0)
        return flat.reshape(flat.shape[0] // self.block, -1).mean(1)


Score = Callable[[Transformer, Mapping[str, Sequence[AxisPlace]], Sequence[Batch]], dict[str, Tensor]]


def score_groups(model: Transformer, groups: Iterable[AxisGroup], batches: Sequence[Batch],
                 score: str) -> dict[str, Tensor]:
    """Group -> the importance of each of its items. Raises InputError for an unknown score."""
    if score not in SCORES:
        raise InputError("score", f"{score!r} is not allowed; allowed: {', '.join(SCORES)}")
    places = _places(groups)
    scores = SCORES[score](model, places, batches)
    return {name: scores.get(name, _norms(model, places[name])) for name in places}


def _places(groups: Iterable[AxisGroup]) -> dict[str, list[AxisPlace]]:
    """Group -> where its axes are in the plain model. Tensors that are stored in parts are left out."""
    return {group.name: [AxisPlace(f"{axis.step.path}.{axis.tensor}", entry, axis.axis, axis.block, axis.span)
                         for axis in group.axes for entry in unit_entries(axis.step.unit)
                         if entry.name == axis.tensor and entry.layout.parts is None] for group in groups}


def _norms(model: Transformer, places: Iterable[AxisPlace]) -> Tensor:
    """The mean square of an item's weights, for groups without another score."""
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return torch.stack([place.items(named[place.parameter].detach().float().square()) for place in places]).mean(0)


def _closing(model: Transformer, places: Iterable[AxisPlace]) -> list[AxisPlace]:
    """Where a group's items are summed: the matrices that read them."""
    matrices = declared_matrices(model)
    return [place for place in places if place.axis in place.inputs and place.parameter in matrices
            and matrices[place.parameter].product is Product.LINEAR
            and isinstance(matrices[place.parameter].owner, nn.Linear)]


def _normed(model: Transformer, places: Iterable[AxisPlace]) -> list[AxisPlace]:
    """The weights of norms among places: those whose module holds nothing but vectors."""
    return [place for place in places if place.parameter.endswith("weight")
            and all(parameter.ndim == 1 for parameter in model.get_submodule(place.owner).parameters())]


def _seen(model: Transformer, name: str, places: Sequence[AxisPlace]) -> tuple[list[AxisPlace], bool]:
    """Where a group's activations are seen, and whether as outputs: of the norms for the width, else of what sums."""
    norms = _normed(model, places) if name == WIDTH else []
    return (norms, True) if norms else (_closing(model, places), False)


@torch.no_grad()
def activation(model: Transformer, places: Mapping[str, Sequence[AxisPlace]],
               batches: Sequence[Batch]) -> dict[str, Tensor]:
    """The mean magnitude of what the closing matrix reads; for the width, of what the norms give, summed over them."""
    sums: dict[str, Tensor] = {}
    hooks: list[torch.utils.hooks.RemovableHandle] = []
    tokens: list[Batch] = []

    def add(name: str, place: AxisPlace, values: Tensor) -> None:
        item = place.input_items(_real(values, tokens[-1]).abs().float().mean(0))
        sums[name] = sums.get(name, torch.zeros_like(item)) + item

    for name, group in places.items():
        seen, outputs = _seen(model, name, group)
        for place in seen:
            module = model.get_submodule(place.owner)
            hooks.append(module.register_forward_hook(lambda _, given, result, name=name, place=place, out=outputs:
                                                      add(name, place, result if out else given[0])))
    for batch in batches:
        tokens.append(batch)
        _run(model, batch)
    for hook in hooks:
        hook.remove()
    return sums


def taylor(model: Transformer, places: Mapping[str, Sequence[AxisPlace]],
           batches: Sequence[Batch]) -> dict[str, Tensor]:
    """First order: how much the loss would change without an item, by the gradient of what reads it."""
    named, sums = dict(model.named_parameters()), dict[str, Tensor]()
    seen = {name: _seen(model, name, group)[0] for name, group in places.items()}
    for parameter in named.values():
        parameter.requires_grad_(True)
    for batch in batches:
        model.zero_grad(set_to_none=True)
        logits, labels = labelled(_run(model, batch), batch.labels)
        (label_loss(logits, labels) / len(labels)).backward()  # type: ignore[no-untyped-call]
        for name, group in seen.items():
            for place in group:
                parameter = named[place.parameter]
                if parameter.grad is not None:
                    item = place.items((parameter * parameter.grad).detach().float()).abs()
                    sums[name] = sums.get(name, torch.zeros_like(item)) + item
    model.zero_grad(set_to_none=True)
    return sums


SCORES: dict[str, Score] = {"activation": activation, "taylor": taylor}


@torch.no_grad()
def score_layers(model: Transformer, batches: Sequence[Batch]) -> dict[str, float]:
    """Layer, such as `decoder.3` -> 1 - cos(in, out), the mean over real tokens: how much it changes the stream.

    A layer before which the number of tokens changes has no such score.
    """
    inputs: list[Tensor] = []
    embeddings = {step.path for step in plan(model.arch) if step.role == "embedding"}
    hooks = [model.get_submodule(path).register_forward_hook(lambda _, given, result: inputs.append(result))
             for path in embeddings]
    sums: dict[str, float] = {}
    for batch in batches:
        inputs.clear()
        features = list(_run(model, batch, ("features",))["features"])
        for (stack, layers), before in zip(model.arch.stacks.items(), inputs):
            for i in range(len(layers)):
                after = features.pop(0)
                if before.shape == after.shape:
                    change = 1 - F.cosine_similarity(_real(before, batch).float(), _real(after, batch).float(), dim=-1)
                    sums[f"{stack}.{i}"] = sums.get(f"{stack}.{i}", 0.0) + float(change.mean()) / len(batches)
                before = after
    for hook in hooks:
        hook.remove()
    return sums


def _run(model: Transformer, batch: Batch, outputs: Sequence[str] | None = None) -> Any:
    return run_model(model, model.arch, batch, outputs)


def _real(values: Tensor, batch: Batch) -> Tensor:
    """(tokens, width) values of the real tokens, if there is a mask: pooled tokens have none."""
    for mask in (batch.mask, batch.target_mask):
        if mask is not None and mask.shape == values.shape[:2]:
            return values[mask]
    return values.flatten(0, -2)
