"""T5: relative positions, RMSNorm before the block, no biases.

T5 does not divide scores by the root of the head size; queries are multiplied by it here. It has one table of relative
positions per stack; here every layer holds a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nas.importers._base import (
    Copies,
    Importer,
    ImportWishes,
    Link,
    NotExpressibleError,
    Scaled,
    StockModel,
    same,
)
from nas.importers._building import assemble, stacked
from nas.importers._config import ACTIVATIONS, THEIR_ACTIVATIONS, PretrainedSettings
from search_spaces import Architecture
from search_spaces.errors import shown

CLASSES = {"t5": "T5ForConditionalGeneration", "mt5": "MT5ForConditionalGeneration"}
CONTEXT = 512
"""T5 reads texts of any length; this is the length it was trained with."""


def read(config: PretrainedSettings, names: frozenset[str], wishes: ImportWishes) -> StockModel:
    """The model of a config."""
    model_type = str(config.data["model_type"])
    config.head(wishes.head, {"ForConditionalGeneration": "lm"}, ("lm",))
    gated, activation = _feed_forward(config, "relu" if model_type == "t5" else "gated-gelu")
    tied = "lm_head.weight" not in names and config.data.get("tie_word_embeddings") is not False
    scaled = model_type == "t5" and config.truth("scale_decoder_outputs",
                                                 config.data.get("tie_word_embeddings") is not False)
    heads = {"n_heads": config.number("num_heads", 8), "head_dim": config.number("d_kv", 64)}
    mixer = ("attention", {**heads, "relative_buckets": config.number("relative_attention_num_buckets", 32),
                           "relative_distance": config.number("relative_attention_max_distance", 128)})
    ffn = ("ffn", {"inner": config.number("d_ff", 2048), "activation": activation, "gated": gated})
    n_encoder = config.number("num_layers", 6)
    arch = assemble(
        family="seq2seq", vocab_size=config.number("vocab_size", 32128), width=config.number("d_model", 512),
        context=wishes.context or config.number("n_positions", CONTEXT), embedding=("lookup", {}),
        head=("tied", {"scale": scaled}) if tied else ("linear", {}), norm="rmsnorm",
        norm_eps=config.real("layer_norm_epsilon", 1e-6), placement="pre", positions="none", bias=False,
        encoder=stacked(mixer, ffn, range(n_encoder)),
        decoder=stacked(mixer, ffn, range(config.number("num_decoder_layers", n_encoder)), ("cross_attention", heads)))
    copies = ("encoder.embed_tokens.", "decoder.embed_tokens.")
    return StockModel(arch, CLASSES[model_type], tuple(_links(arch, scaled)),
                      (*copies, "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias."))


def _links(arch: Architecture, scaled: bool) -> Iterator[Link]:
    yield from same("embedding.table", "shared", "weight")
    for stack, layers in arch.stacks.items():
        tables = tuple(f"{stack}.{i}.mixer.block.attend.relative.weight" for i in range(len(layers)))
        yield Link(f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight", tables, Copies(len(tables)))
        for i in range(len(layers)):
            yield from _attention(arch, f"{stack}.{i}.mixer", f"{stack}.block.{i}.layer.0", "SelfAttention")
            if stack == "decoder":
                yield from _attention(arch, f"{stack}.{i}.cross", f"{stack}.block.{i}.layer.1", "EncDecAttention")
            last = f"{stack}.block.{i}.layer.{2 if stack == 'decoder' else 1}"
            yield from same(f"{stack}.{i}.ffn.norm", f"{last}.layer_norm", "weight")
            names = {"up": "wi_0", "gate": "wi_1", "down": "wo"} if layers[i].ffn["gated"] else {"up": "wi",
                                                                                                  "down": "wo"}
            for our, their in names.items():
                yield from same(f"{stack}.{i}.ffn.block.{our}", f"{last}.DenseReluDense.{their}", "weight")
        yield from same(f"{stack}.norm", f"{stack}.final_layer_norm", "weight")
    if arch.head.kind == "linear":
        yield Link("lm_head.weight", ("head.words.weight",), Scaled(arch.width**-0.5 if scaled else 1.0))


def _attention(arch: Architecture, ours: str, theirs: str, name: str) -> Iterator[Link]:
    root = float(arch.encoder[0].mixer["head_dim"]) ** 0.5
    yield from same(f"{ours}.norm", f"{theirs}.layer_norm", "weight")
    yield Link(f"{theirs}.{name}.q.weight", (f"{ours}.block.attend.q.weight",), Scaled(root))
    for part in ("k", "v", "o"):
        yield from same(f"{ours}.block.attend.{part}", f"{theirs}.{name}.{part}", "weight")


def _feed_forward(config: PretrainedSettings, default: str) -> tuple[bool, str]:
    """Whether it is gated, and our name for the activation."""
    value = config.data.get("feed_forward_proj", default)
    first, _, last = value.partition("-") if isinstance(value, str) else ("", "", "")
    activation = "gelu_new" if value == "gated-gelu" else last or first
    if activation not in ACTIVATIONS or (last and first != "gated"):
        raise config.fault("feed_forward_proj", f"{shown(value)} is not supported; supported: "
                                                f"{', '.join(ACTIVATIONS)}, each also with the prefix gated-")
    return bool(last), ACTIVATIONS[activation]


def write(arch: Architecture, model_type: str) -> dict[str, Any]:
    """A config of that type for the architecture."""
    if arch.family != "seq2seq" or arch.norm != "rmsnorm":
        raise NotExpressibleError("it is not an encoder-decoder with RMSNorm")
    mixer, ffn = arch.encoder[0].mixer, arch.encoder[0].ffn
    activation = THEIR_ACTIVATIONS.get(str(ffn["activation"]), str(ffn["activation"]))
    gated = "gated-gelu" if activation == "gelu_new" else f"gated-{activation}"
    return {"model_type": model_type, "architectures": [CLASSES[model_type]], "vocab_size": arch.vocab_size,
            "d_model": arch.width, "d_kv": mixer["head_dim"], "d_ff": ffn["inner"], "num_layers": len(arch.encoder),
            "num_decoder_layers": len(arch.decoder), "num_heads": mixer["n_heads"], "n_positions": arch.context,
            "relative_attention_num_buckets": mixer["relative_buckets"],
            "relative_attention_max_distance": mixer["relative_distance"],
            "layer_norm_epsilon": arch.norm_eps or 1e-6, "feed_forward_proj": gated if ffn["gated"] else activation,
            "tie_word_embeddings": arch.head.kind == "tied", "is_encoder_decoder": True,
            "scale_decoder_outputs": bool(arch.head.filled().get("scale", False))}


IMPORTER = Importer(name="t5", model_types={"t5": "T5, T5 1.1, Flan-T5", "mt5": "mT5"}, read=read, write=write,
                    help="T5, T5 1.1, Flan-T5, mT5")
