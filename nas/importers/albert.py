"""ALBERT: a factorised embedding, and layers that share their weights in groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nas.importers._base import Importer, ImportWishes, Link, NotExpressibleError, Rows, StockModel, same
from nas.importers._building import assemble, check_depth, stacked
from nas.importers._config import THEIR_ACTIVATIONS, PretrainedSettings
from nas.importers._encoders import BOTH, EncoderHeads, class_labels
from search_spaces import Architecture

ALBERT_HEADS = EncoderHeads(
    body="albert.", stem="Albert", pooler="pooler",
    transform=("predictions.dense", "predictions.LayerNorm", "predictions.bias"),
    classifier=("albert.pooler", "classifier"))
PARTS = {"mixer.block.attend.q": "attention.query", "mixer.block.attend.k": "attention.key",
         "mixer.block.attend.v": "attention.value", "mixer.block.attend.o": "attention.dense",
         "mixer.norm": "attention.LayerNorm", "ffn.block.up": "ffn", "ffn.block.down": "ffn_output",
         "ffn.norm": "full_layer_layer_norm"}


def read(config: PretrainedSettings, names: frozenset[str], wishes: ImportWishes) -> StockModel:
    """The model of a config."""
    config.only("position_embedding_type", "absolute")
    head = ALBERT_HEADS.choose(config, wishes.head, names)
    width, rank = config.number("hidden_size", 4096), config.number("embedding_size", 128)
    if rank >= width:
        raise config.fault("embedding_size", f"{rank} is not supported; supported: less than the hidden_size {width}")
    owners = _owners(config.number("num_hidden_layers", 12), config.number("num_hidden_groups", 1),
                     config.number("inner_group_num", 1))
    activation = config.activation("hidden_act", "gelu_new")
    arch = assemble(
        family="encoder", vocab_size=config.number("vocab_size", 30000), width=width,
        context=config.shorter("max_position_embeddings", wishes.context,
                               config.number("max_position_embeddings", 512)),
        embedding=("lookup", {"rank": rank, "positions_at": "rank", "norm_after": True}),
        head=ALBERT_HEADS.block(head, activation), norm="layernorm", norm_eps=config.real("layer_norm_eps", 1e-12),
        placement="post", positions="learned", bias=True, n_types=config.number("type_vocab_size", 2),
        n_classes=config.classes() if head == "classifier" else 0,
        encoder=stacked(("attention", {"n_heads": config.number("num_attention_heads", 64)}),
                        ("ffn", {"inner": config.number("intermediate_size", 16384), "activation": activation}),
                        [slot for slot, _ in owners]))
    prefix = ALBERT_HEADS.prefixed(names, head)
    return StockModel(arch, ALBERT_HEADS.cls(head), tuple(_links(arch, head, prefix, dict(owners))),
                      ALBERT_HEADS.ignored(head, prefix, names))


def _owners(depth: int, groups: int, inner: int) -> list[tuple[int, str]]:
    """For each of our layers: its slot (the first layer with the same weights) and its name there."""
    check_depth(depth * inner)
    named = [f"albert_layer_groups.{int(i / (depth / groups))}.albert_layers.{j}"
             for i in range(depth) for j in range(inner)]
    return [(named.index(name), name) for name in named]


def _links(arch: Architecture, head: str, prefix: str, owners: dict[int, str]) -> Iterator[Link]:
    yield from same("embedding.table", f"{prefix}embeddings.word_embeddings", "weight")
    yield Link(f"{prefix}embeddings.position_embeddings.weight", ("embedding.place.weight",), Rows(0, arch.context))
    yield from same("embedding.types", f"{prefix}embeddings.token_type_embeddings", "weight")
    yield from same("embedding.norm", f"{prefix}embeddings.LayerNorm", *BOTH)
    yield from same("embedding.project", f"{prefix}encoder.embedding_hidden_mapping_in", *BOTH)
    for slot, name in owners.items():
        for our, their in PARTS.items():
            yield from same(f"encoder.{slot}.{our}", f"{prefix}encoder.{name}.{their}", *BOTH)
    yield from ALBERT_HEADS.links(head, prefix)


def write(arch: Architecture, model_type: str) -> dict[str, Any]:
    """A config for the architecture."""
    if arch.family != "encoder" or arch.embedding.kind != "lookup" or arch.head.kind not in (
            "features", "masked_lm", "classifier"):
        raise NotExpressibleError("it is not an encoder with a plain embedding table and a stock head")
    head = arch.head.kind if arch.head.kind != "features" or not arch.head["pooler"] else "pooler"
    mixer, ffn = arch.encoder[0].mixer, arch.encoder[0].ffn
    slots = [layer.mixer_slot for layer in arch.encoder]
    inner = next((i for i, slot in enumerate(slots) if i and slot == slots[0]), 1)
    return {"model_type": model_type, "architectures": [ALBERT_HEADS.cls(head)], "vocab_size": arch.vocab_size,
            "embedding_size": arch.embedding["rank"], "hidden_size": arch.width,
            "num_hidden_layers": arch.depth // inner,
            "num_hidden_groups": len(set(slots)) // inner, "inner_group_num": inner,
            "num_attention_heads": mixer["n_heads"], "intermediate_size": ffn["inner"],
            "hidden_act": THEIR_ACTIVATIONS.get(str(ffn["activation"]), ffn["activation"]),
            "max_position_embeddings": arch.context, "type_vocab_size": arch.n_types or 1,
            "layer_norm_eps": arch.norm_eps or 1e-5, **class_labels(arch)}


IMPORTER = Importer(name="albert", model_types={"albert": "ALBERT"}, read=read, write=write, help="ALBERT")
