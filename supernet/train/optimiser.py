"""The optimisers of a training: AdamW alone, or Muon for the matrices of layers and AdamW for the rest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from torch import Tensor, nn
from torch.optim import AdamW, Muon, Optimizer

from search_spaces.units import plan
from supernet.layout import TensorEntry
from supernet.store import unit_entries
from supernet.supernet import Supernet
from supernet.train.recipe import Recipe
from supernet.transformer import Transformer

OUTER = ("embedding", "head")
"""Parts with tables and classifiers; Muon trains only the matrices between them."""


class Optimisers:
    """Updates parameters that are known by name; their state can be saved and loaded by name.

    Muon takes matrices alone, so a stored tensor whose axes are split (heads x head size) is updated through a view
    with two axes. Its update has the size of an AdamW update, so one learning rate serves both.

    Args:
        matrices: the parameters that Muon updates, by name, with rows and columns.
    """

    def __init__(self, named: Mapping[str, nn.Parameter], recipe: Recipe,
                 matrices: Mapping[str, tuple[int, int]] | None = None) -> None:
        self.named = named
        shapes = dict(matrices or {}) if recipe.optimiser == "muon" else {}
        self.views = {name: nn.Parameter(named[name].detach().view(shape)) for name, shape in shapes.items()}
        rest = {name: parameter for name, parameter in named.items() if name not in shapes}
        self.all: list[Optimizer] = [_adamw(rest, recipe)] if rest else []
        if shapes:
            self.all.append(Muon(list(self.views.values()), lr=recipe.lr, weight_decay=recipe.weight_decay,
                                 adjust_lr_fn="match_rms_adamw"))

    @property
    def param_groups(self) -> list[dict[str, object]]:
        """The groups of all optimisers."""
        return [group for optimiser in self.all for group in optimiser.param_groups]

    def step(self) -> None:
        """Move every parameter that has a gradient."""
        for name, view in self.views.items():
            gradient = self.named[name].grad
            view.grad = None if gradient is None else gradient.view(view.shape)
        for optimiser in self.all:
            optimiser.step()

    def tensors(self) -> dict[str, Tensor]:
        """The state by `part/name`."""
        return {f"{part}/{name}": tensor for name in self.named for part, tensor in self._state(name).items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Set the state. Raises KeyError where a name is unknown."""
        for full, tensor in tensors.items():
            part, _, name = full.partition("/")
            device = self.named[name].device  # a fused optimiser keeps its count of steps on the device too
            self._state(name, new=True)[part] = tensor.to(device, copy=True)

    def _state(self, name: str, new: bool = False) -> dict[str, Tensor]:
        held = self.views.get(name, self.named[name])
        state = self.all[-1 if name in self.views else 0].state
        return state.setdefault(held, {}) if new else state.get(held, {})


def _adamw(named: Mapping[str, nn.Parameter], recipe: Recipe) -> AdamW:
    """AdamW in one fused pass; norms and biases do not decay."""
    decaying = [name for name, p in named.items() if p.ndim > 1 and not name.endswith("bias")]
    groups = [{"params": [named[name] for name in decaying], "weight_decay": recipe.weight_decay},
              {"params": [p for name, p in named.items() if name not in set(decaying)], "weight_decay": 0.0}]
    return AdamW([group for group in groups if group["params"]], lr=recipe.lr, betas=(0.9, recipe.beta2), fused=True)


def matrices_of(model: Supernet | Transformer) -> dict[str, tuple[int, int]]:
    """The matrices of a model's layers by parameter name, each with its rows and columns."""
    shapes = {}
    for name, shape, entry in _entries(model):
        rows_and_columns = _as_matrix(shape, entry)
        if not name.startswith(OUTER) and rows_and_columns is not None:
            shapes[name] = rows_and_columns
    return shapes


def _entries(model: Supernet | Transformer) -> Iterator[tuple[str, tuple[int, ...], TensorEntry]]:
    if isinstance(model, Supernet):
        yield from ((name, tuple(model.get_stored(name).shape), entry) for name, entry in model.owners.items())
    else:
        yield from ((f"{step.path}.{entry.name}", entry.layout.shape or entry.shape, entry)
                    for step in plan(model.arch) for entry in unit_entries(step.unit))


def _as_matrix(shape: tuple[int, ...], entry: TensorEntry) -> tuple[int, int] | None:
    """Rows and columns of a stored shape; None for other tensors than matrices, or one of several (a group of maps)."""
    inputs = sorted(axis % len(shape) for axis in entry.layout.inputs)
    matrix = len(entry.shape) > 1 and not entry.is_buffer and entry.layout.init == "auto"
    if not matrix or inputs != list(range(len(shape) - len(inputs), len(shape))):
        return None
    columns = math.prod(shape[axis] for axis in inputs)
    return math.prod(shape) // columns, columns
