"""GPT-2: learned positions, LayerNorm before the block, fused and transposed maps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nas.importers._base import Importer, ImportWishes, Link, NotExpressibleError, Rows, StockModel, Transposed, same
from nas.importers._building import assemble, stacked
from nas.importers._config import THEIR_ACTIVATIONS, PretrainedSettings
from search_spaces import Architecture

BOTH = ("weight", "bias")


def read(config: PretrainedSettings, names: frozenset[str], wishes: ImportWishes) -> StockModel:
    """The model of a config."""
    config.head(wishes.head, {"LMHeadModel": "lm", "GPT2Model": "lm"}, ("lm",))
    config.only("scale_attn_weights", True)
    config.only("scale_attn_by_inverse_layer_idx", False)
    config.only("add_cross_attention", False)
    width, longest = config.number("n_embd", 768), config.number("n_positions", 1024)
    tied = config.truth("tie_word_embeddings", True)
    ffn = {"inner": config.number("n_inner", 4 * width),
           "activation": config.activation("activation_function", "gelu_new")}
    arch = assemble(
        family="lm", vocab_size=config.number("vocab_size", 50257), width=width, embedding=("lookup", {}),
        context=config.shorter("n_positions", wishes.context, longest),
        head=("tied" if tied else "linear", {}), norm="layernorm",
        norm_eps=config.real("layer_norm_epsilon", 1e-5), placement="pre", positions="learned", bias=True,
        decoder=stacked(("attention", {"n_heads": config.number("n_head", 12)}), ("ffn", ffn),
                        range(config.number("n_layer", 12))))
    prefix = "transformer." if any(name.startswith("transformer.") for name in names) or not names else ""
    buffers = [f"{prefix}h.{i}.attn.{name}" for i in range(arch.depth) for name in ("bias", "masked_bias")]
    return StockModel(arch, "GPT2LMHeadModel", tuple(_links(arch, prefix)),
                      (*buffers, *(("lm_head.",) if tied else ())))


def _links(arch: Architecture, prefix: str) -> Iterator[Link]:
    yield from same("embedding.table", f"{prefix}wte", "weight")
    yield Link(f"{prefix}wpe.weight", ("embedding.place.weight",), Rows(0, arch.context))
    for i in range(arch.depth):
        theirs, mixer, ffn = f"{prefix}h.{i}", f"decoder.{i}.mixer", f"decoder.{i}.ffn"
        yield from same(f"{mixer}.norm", f"{theirs}.ln_1", *BOTH)
        for name in BOTH:
            parts = tuple(f"{mixer}.block.attend.{part}.{name}" for part in ("q", "k", "v"))
            yield Link(f"{theirs}.attn.c_attn.{name}", parts, Transposed(3))
            yield Link(f"{theirs}.attn.c_proj.{name}", (f"{mixer}.block.attend.o.{name}",), Transposed())
            yield Link(f"{theirs}.mlp.c_fc.{name}", (f"{ffn}.block.up.{name}",), Transposed())
            yield Link(f"{theirs}.mlp.c_proj.{name}", (f"{ffn}.block.down.{name}",), Transposed())
        yield from same(f"{ffn}.norm", f"{theirs}.ln_2", *BOTH)
    yield from same("decoder.norm", f"{prefix}ln_f", *BOTH)
    if arch.head.kind == "linear":
        yield Link("lm_head.weight", ("head.words.weight",))


def write(arch: Architecture, model_type: str) -> dict[str, Any]:
    """A config for the architecture."""
    if arch.family != "lm" or arch.norm != "layernorm":
        raise NotExpressibleError("it is not a language model with LayerNorm")
    mixer, ffn = arch.decoder[0].mixer, arch.decoder[0].ffn
    return {
        "model_type": model_type, "architectures": ["GPT2LMHeadModel"], "vocab_size": arch.vocab_size,
        "n_positions": arch.context, "n_embd": arch.width, "n_layer": arch.depth, "n_head": mixer["n_heads"],
        "n_inner": ffn["inner"], "layer_norm_epsilon": arch.norm_eps or 1e-5,
        "activation_function": THEIR_ACTIVATIONS.get(str(ffn["activation"]), ffn["activation"]),
        "tie_word_embeddings": arch.head.kind == "tied"}


IMPORTER = Importer(name="gpt2", model_types={"gpt2": "GPT-2"}, read=read, write=write, help="GPT-2")
