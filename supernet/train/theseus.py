"""Progressive module replacement (BERT-of-Theseus): layer by layer, a student replaces a larger model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from search_spaces.architecture import Architecture, Layer
from search_spaces.errors import InputError, Option
from search_spaces.kind import Value
from search_spaces.space.dimensions import Gene, PartSpace
from search_spaces.space.search_space import SearchSpace
from search_spaces.units import LENGTHS, SUBLAYERS, Step, plan, shared_layers
from supernet.batch import Batch
from supernet.inference import precision
from supernet.train.recipe import Recipe
from supernet.train.strategy import generator
from supernet.transformer import Transformer, run


def layer_ends(n: int, m: int) -> tuple[int, ...]:
    """For each of n layers the matching one of m: layer i matches round((i + 1) m / n) - 1, halves rounded up.

    So the last matches the last, and if m >= n the layers up to each match form groups of about m / n.
    """
    return tuple(max((2 * (i + 1) * m + n) // (2 * n) - 1, 0) for i in range(n))


def predecessor(space: SearchSpace, student: Architecture) -> Architecture:
    """The largest architecture of a space with the student's interface: its width, embedding, head, norms, positions.

    Raises:
        InputError: the student is not in the space, is itself the largest with its interface, or one of the two has
            layers that share keys and values.
    """
    genes = space.encode(student)
    larger = _narrowed(space, genes, scaling=False).largest()
    if _frame(larger) != _frame(student):  # an embedding that is scaled with the blocks
        larger = _narrowed(space, genes, scaling=True).largest()
    if larger == student:
        message = (f"{student.key[:12]} is itself the largest architecture of {space.name} with its width, embedding "
                   "and head, so there is no larger model whose layers it could replace")
        raise InputError(Option("theseus"), message)
    for arch in (student, larger):
        if shared_layers(arch):
            raise InputError(Option("theseus"), f"{arch.key[:12]} has layers that reuse results of others, so layers "
                                                "cannot be replaced one by one; retrain without this option")
    return larger


def _narrowed(space: SearchSpace, genes: dict[str, Value], scaling: bool) -> SearchSpace:
    """The subspace whose architectures have these values of the genes of the whole model."""
    def fixed(gene: Gene) -> Gene:
        return Gene(gene.name, ((genes[gene.name],),)) if gene.name in genes else gene

    def fixed_part(part: PartSpace) -> PartSpace:
        dims = {kind: {dim: fixed(gene) for dim, gene in of_kind.items()} for kind, of_kind in part.dims.items()}
        return replace(part, kind=fixed(part.kind), dims=dims)

    scaled = space.scaling
    if scaled and scaling:
        scaled = replace(scaled, depths=fixed(scaled.depths), multiplier=fixed(scaled.multiplier),
                         order=fixed(scaled.order))
    return replace(space, settings={name: fixed(gene) for name, gene in space.settings.items()},
                   embedding=fixed_part(space.embedding), head=fixed_part(space.head), scaling=scaled)


def _frame(arch: Architecture) -> tuple[Step, ...]:
    """Everything outside the layers."""
    return tuple(step for step in plan(arch) if step.role not in (*SUBLAYERS, *LENGTHS))


def take_frame(student: Transformer, larger: Transformer) -> None:
    """Copy the weights outside the layers, which both models have in the same shapes."""
    for step in _frame(student.arch):
        student.get_submodule(step.path).load_state_dict(larger.get_submodule(step.path).state_dict())


@dataclass(frozen=True)
class Theseus:
    """Runs a student with some of its layers, and its frame, replaced by those of a frozen predecessor.

    In step t, each layer of the student is active with probability `start` + (1 - `start`) t / `until`, drawn from the
    seed and the step, and at least one is; each other layer is replaced by its group of the predecessor's layers. Only
    active layers are trained. From step `until` on, the whole student runs.
    """

    predecessor: Transformer
    seed: int
    start: float
    until: float

    def __post_init__(self) -> None:
        self.predecessor.eval().requires_grad_(False)

    def is_replacing(self, step: int) -> bool:
        """Whether layers are still replaced in a step."""
        return step < self.until

    def share(self, step: int) -> float:
        """The probability of each layer to be active."""
        return min(1.0, self.start + (1 - self.start) * step / self.until)

    def draw(self, student: Architecture, step: int) -> tuple[bool, ...]:
        """Which layers of the student are active, over all stacks."""
        rng, share = generator(self.seed, "theseus", step), self.share(step)
        drawn = [rng.random() < share for _ in range(student.depth)]
        drawn[rng.randrange(student.depth)] |= not any(drawn)
        return tuple(drawn)

    def predict(self, student: Transformer, batch: Batch, recipe: Recipe, step: int,
                outputs: Sequence[str]) -> dict[str, Any]:
        """What the mixture of a step gives: see `Transformer.forward`."""
        arch = mixture(student.arch, self.predecessor.arch, self.draw(student.arch, step))
        checkpointing = student.checkpointing and torch.is_grad_enabled()
        with precision(recipe, batch.tokens.device):
            out: dict[str, Any] = run(arch, _Mixed(student, self.predecessor), checkpointing, batch.tokens,
                                        batch.target, batch.mask, batch.target_mask,
                                        batch.types if student.arch.n_types > 1 else None, outputs)
        return out


def mixture(student: Architecture, larger: Architecture, runs: Sequence[bool]) -> Architecture:
    """The student with inactive layers replaced by their groups, whose slots come after its own."""
    stacks: dict[str, Any] = {}
    marks = iter(runs)
    for stack, layers in student.stacks.items():
        theirs, shift, first = larger.stacks[stack], n_slots(layers), 0
        mixed: list[Layer] = []
        for layer, end in zip(layers, layer_ends(len(layers), len(theirs))):
            mixed += [layer] if next(marks) else [_shifted(inner, shift) for inner in theirs[first : end + 1]]
            first = end + 1
        stacks[stack] = tuple(mixed)
    return replace(student, **stacks)


def n_slots(layers: Sequence[Layer]) -> int:
    """The first slot after those that layers use."""
    return 1 + max(slot for layer in layers for _, _, slot in layer.parts())


def _shifted(layer: Layer, by: int) -> Layer:
    between = None if layer.between_slot is None else layer.between_slot + by
    return replace(layer, mixer_slot=layer.mixer_slot + by, ffn_slot=layer.ffn_slot + by, between_slot=between)


class _Mixed:
    """The units of a mixture: the student's layers, and the predecessor's layers and frame."""

    def __init__(self, student: Transformer, larger: Transformer) -> None:
        self.student, self.larger = student, larger
        self.shifts = {stack: n_slots(layers) for stack, layers in student.arch.stacks.items()}

    def call(self, step: Step, *inputs: Any) -> Any:
        """Run the unit of a step."""
        return self._module(step)(*inputs)

    def tensors(self, step: Step) -> dict[str, Tensor]:
        """The weights of the unit of a step."""
        return dict(self._module(step).named_parameters())

    def residual(self, step: Step) -> nn.Module:
        """The module of a step."""
        return self._module(step)

    def _module(self, step: Step) -> nn.Module:
        if step.role not in (*SUBLAYERS, *LENGTHS):
            return self.larger.get_submodule(step.path)
        stack, slot, role = step.path.split(".")
        own = int(slot) - self.shifts[stack]
        return self.student.get_submodule(step.path) if own < 0 else self.larger.get_submodule(f"{stack}.{own}.{role}")
