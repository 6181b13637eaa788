"""Llama and its relatives: rotary positions, RMSNorm before the block, gated feed-forward, grouped queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nas.importers._base import Importer, ImportWishes, Link, NotExpressibleError, StockModel, same
from nas.importers._building import BlockDims, assemble, stacked
from nas.importers._config import THEIR_ACTIVATIONS, PretrainedSettings
from search_spaces import Architecture
from search_spaces.errors import Option, shown

CLASSES = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM",
           "qwen3": "Qwen3ForCausalLM"}
MAPS = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "o_proj"}
GROUPED = "grouped_queries"
"""Field of written configs that only `read` knows: whether groups of queries are a block of their own."""
FFN = {"up": "gate_proj", "gate": "up_proj", "down": "down_proj"}
"""Ours -> theirs: the map that is activated is our `up` and their gate."""


def read(config: PretrainedSettings, names: frozenset[str], wishes: ImportWishes) -> StockModel:
    """The model of a config."""
    model_type = str(config.data["model_type"])
    config.head(wishes.head, {"ForCausalLM": "lm", "Model": "lm"}, ("lm",))
    width, n_heads = config.number("hidden_size"), config.number("num_attention_heads")
    context = config.shorter("max_position_embeddings", wishes.context,
                             config.number("max_position_embeddings", 2048))
    config.only("pretraining_tp", 1)
    _check_window(config, context, model_type)
    biases = _biases(config, model_type)
    mlp_bias = config.truth("mlp_bias", False) if model_type == "llama" else False
    attention = _attention(config, n_heads, config.number(
        "num_key_value_heads", 8 if model_type == "mistral" else n_heads), {
            "head_dim": config.number("head_dim", _head_dim(model_type, width, n_heads)),
            "rotary_base": _base(config), "biases": biases, "qk_norm": model_type == "qwen3"})
    ffn = {"inner": config.number("intermediate_size"), "activation": config.activation("hidden_act", "silu"),
           "gated": True}
    tied = config.truth("tie_word_embeddings", False)
    arch = assemble(
        family="lm", vocab_size=config.number("vocab_size"), context=context, width=width, embedding=("lookup", {}),
        head=("tied" if tied else "linear", {}), norm="rmsnorm", norm_eps=config.real("rms_norm_eps", 1e-6),
        placement="pre", positions="rotary", bias=mlp_bias,
        decoder=stacked(attention, ("ffn", ffn), range(config.number("num_hidden_layers"))))
    prefix = "model." if any(name.startswith("model.") for name in names) or not names else ""
    ignored = [f"{prefix}layers.{i}.self_attn.rotary_emb." for i in range(arch.depth)]
    return StockModel(arch, CLASSES[model_type], tuple(_links(arch, prefix, biases, mlp_bias)),
                      (*ignored, *(("lm_head.",) if tied else ())))


def _attention(config: PretrainedSettings, n_heads: int, n_kv_heads: int, dims: dict[str, Any]) -> BlockDims:
    """Groups of queries are stored by their key/value head, so that slices keep them together."""
    if n_heads % n_kv_heads:
        raise config.fault("num_key_value_heads", f"{n_kv_heads} does not divide num_attention_heads, {n_heads}")
    if config.truth(GROUPED, n_kv_heads < n_heads):
        return "grouped_attention", {**dims, "n_kv_heads": n_kv_heads, "queries": n_heads // n_kv_heads}
    return "attention", {**dims, "n_heads": n_heads, "n_kv_heads": n_kv_heads}


def _links(arch: Architecture, prefix: str, biases: str, mlp_bias: bool) -> Iterator[Link]:
    yield from same("embedding.table", f"{prefix}embed_tokens", "weight")
    for i in range(arch.depth):
        theirs, mixer, ffn = f"{prefix}layers.{i}", f"decoder.{i}.mixer", f"decoder.{i}.ffn"
        yield from same(f"{mixer}.norm", f"{theirs}.input_layernorm", "weight")
        for our, their in MAPS.items():
            bias = biases == "all" or biases == "qkv" and our != "o"
            yield from same(f"{mixer}.block.attend.{our}", f"{theirs}.self_attn.{their}",
                            "weight", *(("bias",) if bias else ()))
        if arch.decoder[0].mixer["qk_norm"]:
            for norm in ("q_norm", "k_norm"):
                yield from same(f"{mixer}.block.attend.{norm}", f"{theirs}.self_attn.{norm}", "weight")
        yield from same(f"{ffn}.norm", f"{theirs}.post_attention_layernorm", "weight")
        for our, their in FFN.items():
            yield from same(f"{ffn}.block.{our}", f"{theirs}.mlp.{their}", "weight", *(("bias",) if mlp_bias else ()))
    yield from same("decoder.norm", f"{prefix}norm", "weight")
    if arch.head.kind == "linear":
        yield Link("lm_head.weight", ("head.words.weight",))


def _head_dim(model_type: str, width: int, n_heads: int) -> int | None:
    if model_type == "qwen3":
        return 128
    return width // n_heads if width % n_heads == 0 else None


def _biases(config: PretrainedSettings, model_type: str) -> str:
    if model_type == "qwen2":
        return "qkv"
    return "all" if model_type != "mistral" and config.truth("attention_bias", False) else "none"


def _base(config: PretrainedSettings) -> float:
    """The rotary base; any scaling of positions is refused."""
    for name in ("rope_scaling", "rope_parameters"):
        table = config.data.get(name) or {}
        if not isinstance(table, dict):
            raise config.fault(name, f"{shown(table)} is not allowed; allowed: a table")
        kind = table.get("rope_type", table.get("type", "default"))
        if kind != "default" or table.get("partial_rotary_factor", 1.0) != 1.0:
            raise config.fault(name, f"{shown(table)} is not supported; supported: the type default")
    config.only("partial_rotary_factor", 1.0)
    nested = (config.data.get("rope_parameters") or {}).get("rope_theta")
    return float(nested) if isinstance(nested, (int, float)) else config.real("rope_theta", 10000.0)


def _check_window(config: PretrainedSettings, context: int, model_type: str) -> None:
    """A window at least as long as the context changes nothing."""
    if model_type == "llama" or (model_type != "mistral" and not config.data.get("use_sliding_window", False)):
        return
    window = config.data.get("sliding_window", 4096 if model_type == "mistral" else None)
    if window is not None and window < context:
        raise config.fault("sliding_window", f"{shown(window)} is shorter than the context of {context:,}, which is "
                                             f"not supported; give {Option('context')} {window} or less")


def write(arch: Architecture, model_type: str) -> dict[str, Any]:
    """A config of that type for the architecture."""
    if arch.family != "lm" or arch.norm != "rmsnorm":
        raise NotExpressibleError("it is not a language model with RMSNorm")
    mixer, ffn = arch.decoder[0].mixer, arch.decoder[0].ffn
    biases = {"model": "all" if arch.bias else "none"}.get(str(mixer["biases"]), mixer["biases"])
    grouped = mixer.kind == "grouped_attention"
    n_heads = int(mixer["n_kv_heads"]) * int(mixer["queries"]) if grouped else mixer["n_heads"]
    return {
        "model_type": model_type, "architectures": [CLASSES[model_type]], "vocab_size": arch.vocab_size,
        "hidden_size": arch.width, "intermediate_size": ffn["inner"], "num_hidden_layers": arch.depth,
        "num_attention_heads": n_heads, "num_key_value_heads": mixer["n_kv_heads"],
        GROUPED: grouped,
        "head_dim": mixer["head_dim"], "hidden_act": THEIR_ACTIVATIONS.get(str(ffn["activation"]), ffn["activation"]),
        "max_position_embeddings": arch.context, "rms_norm_eps": arch.norm_eps or 1e-6,
        "rope_theta": mixer["rotary_base"], "attention_bias": biases == "all", "mlp_bias": arch.bias,
        "tie_word_embeddings": arch.head.kind == "tied", "sliding_window": None, "use_sliding_window": False}


IMPORTER = Importer(
    name="llama", model_types={"llama": "Llama, SmolLM", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"},
    read=read, write=write, help="Llama, SmolLM, Mistral, Qwen2, Qwen3", private_fields=(GROUPED,),
    dropout=0.0)
