"""A trained model with another head: everything else keeps its weights."""

from __future__ import annotations

from search_spaces import Architecture
from supernet import Transformer


def with_head(model: Transformer, arch: Architecture, seed: int) -> tuple[Transformer, tuple[str, ...]]:
    """The model as another architecture that differs in its head, and the names of the tensors that are new.

    Tensors of the same name and shape are kept: a classifier keeps the pooler of an imported encoder.
    """
    extended, old = Transformer(arch, seed=seed).eval(), model.state_dict()
    wanted = extended.state_dict()
    kept = {name: old[name] for name, tensor in wanted.items() if name in old and old[name].shape == tensor.shape}
    extended.load_state_dict({**wanted, **kept})
    return extended, tuple(name for name in wanted if name not in kept)
