"""BERT and its relatives: post-norm encoders with learned positions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nas.importers._base import Importer, ImportWishes, Link, NotExpressibleError, Rows, StockModel, same
from nas.importers._building import assemble, stacked
from nas.importers._config import THEIR_ACTIVATIONS, PretrainedSettings
from nas.importers._encoders import BOTH, EncoderHeads, class_labels
from search_spaces import Architecture

BERT_HEADS = EncoderHeads(
    body="bert.", stem="Bert", pooler="pooler.dense",
    transform=("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"),
    classifier=("bert.pooler.dense", "classifier"))
ROBERTA_HEADS = EncoderHeads(
    body="roberta.", stem="Roberta", pooler="pooler.dense", activation="gelu",
    transform=("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
    classifier=("classifier.dense", "classifier.out_proj"))
ELECTRA_HEADS = EncoderHeads(
    body="electra.", stem="Electra", pooler="", activation="gelu", pooling="gelu",
    transform=("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head.bias"),
    classifier=("classifier.dense", "classifier.out_proj"))
DISTIL_HEADS = EncoderHeads(
    body="distilbert.", stem="DistilBert", pooler="", pooling="relu",
    transform=("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),
    classifier=("pre_classifier", "classifier"))


@dataclass(frozen=True)
class EncoderNames:
    """What a family calls the parts of an encoder; `{i}` is the index of a layer.

    Args:
        layer: of a layer; its parts follow: query, key, value, output, norm, up, down, norm.
        config: our names of config fields -> theirs.
        offset: rows of the position table before the first position.
    """

    heads: EncoderHeads
    layer: str = "encoder.layer.{i}."
    parts: tuple[str, ...] = (
        "attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
        "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm")
    config: tuple[str, ...] = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                               "hidden_act")
    offset: bool = False
    types: int = 2


KNOWN = {
    "bert": EncoderNames(BERT_HEADS),
    "roberta": EncoderNames(ROBERTA_HEADS, offset=True),
    "xlm-roberta": EncoderNames(ROBERTA_HEADS.without(stem="XLMRoberta"), offset=True),
    "electra": EncoderNames(ELECTRA_HEADS),
    "distilbert": EncoderNames(
        DISTIL_HEADS, layer="transformer.layer.{i}.",
        parts=("attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin", "sa_layer_norm",
               "ffn.lin1", "ffn.lin2", "output_layer_norm"),
        config=("dim", "n_layers", "n_heads", "hidden_dim", "activation"), types=0),
}
OURS = ("mixer.block.attend.q", "mixer.block.attend.k", "mixer.block.attend.v", "mixer.block.attend.o", "mixer.norm",
        "ffn.block.up", "ffn.block.down", "ffn.norm")
"""In the order of `EncoderNames.parts`."""


def read(config: PretrainedSettings, names: frozenset[str], wishes: ImportWishes) -> StockModel:
    """The model of a config."""
    model_type = str(config.data["model_type"])
    known = KNOWN[model_type]
    width_name, depth_name, heads_name, inner_name, act_name = known.config
    config.only("position_embedding_type", "absolute")
    config.only("is_decoder", False)
    config.only("add_cross_attention", False)
    head = known.heads.choose(config, wishes.head, names)
    width = config.number(width_name, 768 if model_type != "electra" else 256)
    rank = config.number("embedding_size", 128) if model_type == "electra" else width
    if rank > width:
        raise config.fault("embedding_size", f"{rank} is not supported; supported: up to the hidden_size {width}")
    first = config.data.get("pad_token_id", 1) + 1 if known.offset else 0
    longest = config.number("max_position_embeddings", 512) - first
    activation = config.activation(act_name, "gelu")
    arch = assemble(
        family="encoder", vocab_size=config.number("vocab_size", 30522), width=width,
        context=config.shorter("max_position_embeddings", wishes.context, longest),
        embedding=("lookup", {"rank": rank, "positions_at": "rank", "norm_after": True}),
        head=known.heads.block(head, activation), norm="layernorm",
        norm_eps=1e-12 if model_type == "distilbert" else config.real("layer_norm_eps", 1e-12), placement="post",
        positions="learned", bias=True, n_types=config.number("type_vocab_size", 2) if known.types else 0,
        n_classes=config.classes() if head == "classifier" else 0,
        encoder=stacked(("attention", {"n_heads": config.number(heads_name, 12)}),
                        ("ffn", {"inner": config.number(inner_name, 4 * width), "activation": activation}),
                        range(config.number(depth_name, 12))))
    prefix = known.heads.prefixed(names, head)
    return StockModel(arch, known.heads.cls(head), tuple(_links(arch, known, head, prefix, first)),
                      known.heads.ignored(head, prefix, names))


def _links(arch: Architecture, known: EncoderNames, head: str, prefix: str, first: int) -> Iterator[Link]:
    yield from same("embedding.table", f"{prefix}embeddings.word_embeddings", "weight")
    yield Link(f"{prefix}embeddings.position_embeddings.weight", ("embedding.place.weight",),
               Rows(first, arch.context))
    if arch.n_types:
        yield from same("embedding.types", f"{prefix}embeddings.token_type_embeddings", "weight")
    yield from same("embedding.norm", f"{prefix}embeddings.LayerNorm", *BOTH)
    if arch.embedding["rank"] != arch.width:
        yield from same("embedding.project", f"{prefix}embeddings_project", *BOTH)
    for i in range(arch.depth):
        for our, their in zip(OURS, known.parts):
            yield from same(f"encoder.{i}.{our}", f"{prefix}{known.layer.format(i=i)}{their}", *BOTH)
    yield from known.heads.links(head, prefix)


def write(arch: Architecture, model_type: str) -> dict[str, Any]:
    """A config of that type for the architecture."""
    if arch.family != "encoder" or arch.embedding.kind != "lookup" or arch.head.kind not in (
            "features", "masked_lm", "classifier"):
        raise NotExpressibleError("it is not an encoder with a plain embedding table and a stock head")
    known = KNOWN[model_type]
    head = arch.head.kind if arch.head.kind != "features" or not arch.head["pooler"] else "pooler"
    mixer, ffn = arch.encoder[0].mixer, arch.encoder[0].ffn
    values = (arch.width, arch.depth, mixer["n_heads"], ffn["inner"],
              THEIR_ACTIVATIONS.get(str(ffn["activation"]), ffn["activation"]))
    config = {"model_type": model_type, "architectures": [known.heads.cls(head)], "vocab_size": arch.vocab_size,
             "max_position_embeddings": arch.context + (2 if known.offset else 0), "type_vocab_size": arch.n_types or 1,
             "layer_norm_eps": arch.norm_eps or 1e-5, **class_labels(arch), **dict(zip(known.config, values))}
    config |= {"pad_token_id": 1} if known.offset else {}
    config |= {"embedding_size": arch.embedding["rank"]} if model_type == "electra" else {}
    return config


IMPORTER = Importer(
    name="bert", model_types={"bert": "BERT, MiniLM", "roberta": "RoBERTa", "xlm-roberta": "XLM-RoBERTa",
                              "distilbert": "DistilBERT", "electra": "ELECTRA"},
    read=read, write=write, help="BERT, MiniLM, RoBERTa, XLM-RoBERTa, DistilBERT, ELECTRA")
