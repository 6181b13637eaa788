"""BART and Marian: post-norm encoder-decoders, with learned or sinusoidal positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nas.importers._base import Flat, Importer, ImportWishes, Link, NotExpressibleError, Rows, StockModel, same
from nas.importers._building import assemble, stacked
from nas.importers._config import THEIR_ACTIVATIONS, PretrainedSettings
from search_spaces import Architecture

CLASSES = {"bart": "BartForConditionalGeneration", "marian": "MarianMTModel"}
BOTH = ("weight", "bias")
MAPS = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}
FIRST = 2
"""Rows of BART's position tables before the first position."""
WORD_BIAS = "final_logits_bias"


def read(config: PretrainedSettings, names: frozenset[str], wishes: ImportWishes) -> StockModel:
    """The model of a config."""
    model_type = str(config.data["model_type"])
    marian = model_type == "marian"
    config.head(wishes.head, {"ForConditionalGeneration": "lm", "MTModel": "lm"}, ("lm",))
    vocab_size, shared = config.number("vocab_size", 50265), config.truth("share_encoder_decoder_embeddings", True)
    config.only("decoder_vocab_size", vocab_size)
    config.only("tie_word_embeddings", True)
    activation = config.activation("activation_function", "gelu")
    stacks = {}
    for stack, default in (("encoder", 12), ("decoder", 12)):
        heads = {"n_heads": config.number(f"{stack}_attention_heads", 16)}
        ffn = ("ffn", {"inner": config.number(f"{stack}_ffn_dim", 4096), "activation": activation})
        stacks[stack] = stacked(("attention", heads), ffn, range(config.number(f"{stack}_layers", default)),
                                ("cross_attention", heads) if stack == "decoder" else None)
    arch = assemble(
        family="seq2seq", vocab_size=vocab_size, width=config.number("d_model", 1024),
        context=config.shorter("max_position_embeddings", wishes.context,
                               config.number("max_position_embeddings", 1024)),
        embedding=("lookup", {"scale": config.truth("scale_embedding", False), "norm_after": not marian,
                              "by_side": not marian, "wavelengths": "paper"}),
        head=("tied", {"word_bias": WORD_BIAS in names or config.truth("word_bias", False)}), norm="layernorm",
        norm_eps=1e-5, placement="post", positions="sinusoidal" if marian else "learned", bias=True,
        share_inputs=shared, encoder=stacks["encoder"], decoder=stacks["decoder"])
    copies = ["lm_head.", *(f"model.{stack}.embed_tokens." for stack in stacks if shared)]
    copies += [f"model.{stack}.embed_positions." for stack in stacks if marian] + ([] if shared else ["model.shared."])
    return StockModel(arch, CLASSES[model_type], tuple(_links(arch, marian)), tuple(copies))


def _links(arch: Architecture, marian: bool) -> Iterator[Link]:
    if arch.share_inputs:
        yield from same("embedding.table", "model.shared", "weight")
    else:
        yield from same("embedding.table", "model.encoder.embed_tokens", "weight")
        yield from same("target_embedding.table", "model.decoder.embed_tokens", "weight")
    for stack, layers in arch.stacks.items():
        side = "target_" if stack == "decoder" else ""
        if not marian:
            yield Link(f"model.{stack}.embed_positions.weight", (f"embedding.{side}place.weight",),
                       Rows(FIRST, arch.context))
            yield from same(f"embedding.{side}norm", f"model.{stack}.layernorm_embedding", *BOTH)
        for i in range(len(layers)):
            ours, theirs = f"{stack}.{i}", f"model.{stack}.layers.{i}"
            yield from _attention(f"{ours}.mixer", theirs, "self_attn")
            if stack == "decoder":
                yield from _attention(f"{ours}.cross", theirs, "encoder_attn")
            yield from same(f"{ours}.ffn.block.up", f"{theirs}.fc1", *BOTH)
            yield from same(f"{ours}.ffn.block.down", f"{theirs}.fc2", *BOTH)
            yield from same(f"{ours}.ffn.norm", f"{theirs}.final_layer_norm", *BOTH)
    if arch.head["word_bias"]:
        yield Link(WORD_BIAS, ("head.bias",), Flat())


def _attention(ours: str, theirs: str, name: str) -> Iterator[Link]:
    for our, their in MAPS.items():
        yield from same(f"{ours}.block.attend.{our}", f"{theirs}.{name}.{their}", *BOTH)
    yield from same(f"{ours}.norm", f"{theirs}.{name}_layer_norm", *BOTH)


def write(arch: Architecture, model_type: str) -> dict[str, Any]:
    """A config of that type for the architecture."""
    if arch.family != "seq2seq" or arch.norm != "layernorm" or arch.head.kind != "tied":
        raise NotExpressibleError("it is not an encoder-decoder with LayerNorm and a tied head")
    config: dict[str, Any] = {
        "model_type": model_type, "architectures": [CLASSES[model_type]], "vocab_size": arch.vocab_size,
        "d_model": arch.width, "max_position_embeddings": arch.context, "is_encoder_decoder": True,
        "scale_embedding": arch.embedding["scale"], "word_bias": arch.head["word_bias"],
        "activation_function": THEIR_ACTIVATIONS.get(str(arch.encoder[0].ffn["activation"]), "")}
    for stack, layers in arch.stacks.items():
        config |= {f"{stack}_layers": len(layers), f"{stack}_attention_heads": layers[0].mixer["n_heads"],
                  f"{stack}_ffn_dim": layers[0].ffn["inner"]}
    if model_type == "marian":
        config |= {"share_encoder_decoder_embeddings": arch.share_inputs, "decoder_vocab_size": arch.vocab_size}
    return config


IMPORTER = Importer(name="bart", model_types={"bart": "BART", "marian": "Marian, OPUS-MT"}, read=read, write=write,
                    zeros={WORD_BIAS: lambda arch: (1, arch.vocab_size)}, help="BART, Marian, OPUS-MT",
                    private_fields=("word_bias",))
