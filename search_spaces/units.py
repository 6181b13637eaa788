"""Architecture -> the units that are built, counted and timed.

A unit is one sub-layer (norm, block and residual together), an embedding, a closing norm or a head,
with everything its module is built from and nothing else, so that equal units cost the same and are
measured once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from search_spaces import kinds
from search_spaces.architecture import Architecture
from search_spaces.block import BlockConfig
from search_spaces.schema import Facts, Value

SUBLAYERS = ("mixer", "cross", "ffn")
_SUBLAYER_FACTS = ("width", "norm", "placement")


@dataclass(frozen=True)
class Unit:
    """What one piece of a plain model is built from.

    Args:
        role: `embedding`, `mixer`, `cross`, `ffn`, `norm` or `head`.
        block: its kind and dims; a closing norm has the norm's name as kind.
        facts: the facts its kind asks for and, for a sub-layer, those of its norm and residual.
    """

    role: str
    block: BlockConfig
    facts: tuple[tuple[str, Value], ...]

    def __str__(self) -> str:
        inner = ", ".join(f"{name}={value}" for name, value in (*self.facts, *self.block.dims))
        return f"{self.block.kind}({inner})"


@dataclass(frozen=True)
class Step:
    """One unit in the order of execution. Steps with the same path share weights.

    Args:
        path: where the weights live, for example `decoder.3.mixer`.
        stack: the stack it runs in, `encoder` or `decoder`; the head runs in the last one.
        layer: the index of the layer in its stack; -1 outside the layers.
    """

    path: str
    unit: Unit
    stack: str
    layer: int = -1


@lru_cache(maxsize=4096)
def plan(arch: Architecture) -> tuple[Step, ...]:
    """The units of an architecture in the order they run."""
    steps: list[Step] = []
    for stack, layers in arch.stacks.items():
        facts = arch.facts(causal=stack == "decoder")
        path = "target_embedding" if stack == "decoder" and not arch.share_inputs else "embedding"
        steps.append(Step(path, make_unit("embedding", arch.embedding, arch.facts(False)), stack))
        for i, layer in enumerate(layers):
            for role, block, slot in layer.parts():
                steps.append(Step(f"{stack}.{slot}.{role}", make_unit(role, block, facts), stack, i))
        if arch.placement == "pre":
            unit = Unit("norm", BlockConfig(arch.norm), facts.pick(("width",)))
            steps.append(Step(f"{stack}.norm", unit, stack))
    steps.append(Step("head", make_unit("head", arch.head, arch.head_facts()), stack))
    return tuple(steps)


@lru_cache(maxsize=100_000)
def make_unit(role: str, block: BlockConfig, facts: Facts) -> Unit:
    """The unit of a block among these facts."""
    names = kinds.get(block.kind).facts
    if role in SUBLAYERS:
        names = tuple(dict.fromkeys((*_SUBLAYER_FACTS, *names)))
    return Unit(role, block, facts.pick(names))
