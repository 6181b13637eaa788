"""Embeddings that are computed from a token alone, stored as one table: more memory, less time."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from torch import Tensor, nn

from search_spaces import registry as kinds
from search_spaces.architecture import Architecture
from search_spaces.block import BlockConfig
from search_spaces.errors import InputError
from search_spaces.units import plan
from supernet.compression.matrices import plain_model
from supernet.layers.positions import AddedPositions
from supernet.transformer import Transformer

AT_ONCE = 4096
"""Words whose embeddings are computed together."""


def cache_embedding(model: Transformer) -> Transformer:
    """The model with a plain table of every word's embedding; its outputs are the same up to rounding.

    A tied head with a projection gets its table as a matrix of its own.

    Raises:
        InputError: the embedding depends on more than the token, is a plain table already, or the head needs it.
    """
    arch = model.arch
    embeddings = {step.path: model.get_submodule(step.path) for step in plan(arch) if step.role == "embedding"}
    for module in embeddings.values():
        if not isinstance(getattr(module, "places", None), AddedPositions) or not kinds.get(arch.embedding.kind).causal:
            raise InputError("embedding", f"{arch.embedding.kind} cannot be stored as one table of token embeddings")
        if getattr(module, "target_dextra", None) is not None:
            raise InputError("embedding", f"{arch.embedding.kind} embeds source and target differently")
    head, tensors = _head(arch, model)
    tensors |= {name: tensor for name, tensor in model.state_dict().items()
                if not name.startswith((*(f"{path}." for path in embeddings), "head."))}
    for path, module in embeddings.items():
        tensors[f"{path}.table.weight"] = _rows(module, arch)
        places = module.get_submodule("places")
        if isinstance(places, AddedPositions) and places.place is not None:
            tensors[f"{path}.place.weight"] = places.place.weight
    lookup = BlockConfig.of("lookup", {"rank": arch.width, "positions_at": "width", "norm_after": False,
                                       "scale": False})
    return plain_model(replace(arch, embedding=lookup, head=head), tensors)


@torch.no_grad()
def _rows(module: nn.Module, arch: Architecture) -> Tensor:
    """(words, width): the embedding of every word without its position."""
    alone = copy.deepcopy(module).eval()
    alone.places = AddedPositions("none", arch.context, arch.width)
    device = next(module.parameters()).device
    ids = torch.arange(arch.vocab_size, device=device).split(AT_ONCE)  # type: ignore[no-untyped-call]
    return torch.cat([alone(some[None])[0] for some in ids])


def _head(arch: Architecture, model: Transformer) -> tuple[BlockConfig, dict[str, Tensor]]:
    """The head after a cached embedding, and its tensors."""
    own = {name: tensor for name, tensor in model.state_dict().items() if name.startswith("head.")}
    if not kinds.get(arch.head.kind).ties:
        return arch.head, own
    dims, rank = arch.head.filled(), arch.head_facts().rank
    plain = arch.head.kind == "tied" and dims["projection"] == "own" and not dims["scale"] and not dims["word_bias"]
    if not plain or rank == arch.width:
        raise InputError("head", f"{arch.head} needs embedding tables, which a cached embedding does not have")
    path = [step.path for step in plan(arch) if step.role == "embedding"][-1]
    table = model.get_parameter(f"{path}.table.weight")
    return BlockConfig.of("linear", {"head_rank": rank}), {**own, "head.words.weight": table}
