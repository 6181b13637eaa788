"""A GGUF file for llama.cpp and the programs built on it: models of the types Llama, Mistral, Qwen2 and Qwen3.

Weights are float16, or blocks of 8-bit integers (Q8_0) where int8 is requested; norms and biases stay float32.
"""

from __future__ import annotations

import re
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from nas.importers import StockModel, stock_models, stock_tensors
from nas.stages.export.folder import sample_text
from nas.stages.export.ggml_vocabulary import write_vocabulary
from nas.stages.export.job import ExportJob, Positional, Run
from search_spaces import InputError
from search_spaces.errors import Command
from supernet import Transformer

if TYPE_CHECKING:
    from gguf import GGUFWriter

HELP = "a GGUF file for llama.cpp, for architectures like Llama"
DYNAMIC, INT8 = True, True
TOLERANCE = 1e-2
"""Weights are rounded to float16."""
FILE = "model.gguf"
ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
"""By `model_type`, the name of the architecture in llama.cpp."""
PLAIN = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
LAYER = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
         "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
"""The names of modules in transformers and in GGUF files."""
Q8_0_BLOCK = 32


def missing() -> str | None:
    """Why it cannot be used here; None where it can."""
    return None if find_spec("gguf") else "gguf is not installed; run `pip install 'paretoformer[gguf]'`"


def write(job: ExportJob, folder: Path) -> dict[str, Any]:
    """One file with weights, settings and vocabulary. Raises InputError if llama.cpp does not support the model."""
    from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType
    from gguf.quants import quantize

    importer, config, stock = _stock(job)
    writer = GGUFWriter(folder / FILE, ARCHITECTURES[config["model_type"]])
    _write_settings(writer, job, config)
    writer.add_file_type(LlamaFileType.MOSTLY_Q8_0 if job.int8 else LlamaFileType.MOSTLY_F16)
    write_vocabulary(writer, job.subnet)
    for name, tensor in stock_tensors(job.model, importer, stock).items():
        values = _turned(name, tensor.numpy(), config, back=False)
        kind = GGMLQuantizationType.F16
        if values.ndim == 1:
            kind = GGMLQuantizationType.F32
        elif job.int8 and values.shape[-1] % Q8_0_BLOCK == 0:
            kind = GGMLQuantizationType.Q8_0
        writer.add_tensor(_named(name), quantize(np.ascontiguousarray(values), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return {"architecture": ARCHITECTURES[config["model_type"]], "weights": "q8_0" if job.int8 else "f16",
            "gguf": version("gguf")}


def usage(job: ExportJob, folder: str) -> list[str]:
    """Lines that load the file in llama.cpp, with its Python package, and continue a text."""
    return ["from llama_cpp import Llama  # pip install llama-cpp-python",
            f"model = Llama({folder + '/' + FILE!r}, n_ctx=0, verbose=False)",
            f'print(model({sample_text(job)!r}, max_tokens=40, temperature=0)["choices"][0]["text"])']


def load(job: ExportJob, folder: Path) -> Run:
    """Runs the plain model on the weights of the file."""
    from gguf import GGUFReader
    from gguf.quants import dequantize

    _, config, stock = _stock(job)
    reader = GGUFReader(folder / FILE)
    there = {tensor.name: dequantize(tensor.data, tensor.tensor_type) for tensor in reader.tensors}
    tensors: dict[str, torch.Tensor] = {}
    for link in stock.links:
        values = _turned(link.theirs, there[_named(link.theirs)], config, back=True)
        parts = link.change.read(torch.tensor(np.ascontiguousarray(values), dtype=torch.float32))
        tensors.update(zip(link.ours, parts))
    model = Transformer(stock.arch)  # its layers are numbered without gaps, as in the file
    model.load_state_dict(tensors)
    module = Positional(model.eval().requires_grad_(False))
    return lambda inputs: torch.as_tensor(module(*inputs))


def _stock(job: ExportJob) -> tuple[Any, dict[str, Any], StockModel]:
    """The stock class of the model. Raises InputError where llama.cpp does not run it."""
    facts = job.subnet.facts
    preferred = str(facts.made[0].settings.get("model_type", "")) if facts.made else ""
    for importer, config, stock in stock_models(job.arch, preferred):
        if config["model_type"] in ARCHITECTURES:
            if config["hidden_act"] != "silu":
                raise InputError(str(job.subnet.path), f"has the activation {config['hidden_act']}; llama.cpp "
                                                            "runs models like Llama with silu only")
            return importer, config, stock
    raise InputError(str(job.subnet.path), "gguf requires an architecture like Llama, Mistral, Qwen2 or Qwen3 "
                                                "with equal layers",
                     f"{Command('show', str(job.subnet.path))} prints the layers of this one")


def _write_settings(writer: GGUFWriter, job: ExportJob, config: dict[str, Any]) -> None:
    writer.add_name(job.arch.key[:12])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])


def _named(theirs: str) -> str:
    """The name of a tensor in the file."""
    module, _, last = theirs.rpartition(".")
    layer = re.fullmatch(r"model\.layers\.(\d+)\.(.+)", module)
    return f"blk.{layer[1]}.{LAYER[layer[2]]}.{last}" if layer else f"{PLAIN[module]}.{last}"


def _turned(theirs: str, values: np.ndarray, config: dict[str, Any], back: bool) -> np.ndarray:
    """Queries and keys of Llama: llama.cpp rotates neighbouring channels, transformers the two halves of a head."""
    part = re.search(r"self_attn\.([qk])_proj", theirs)
    if not part or ARCHITECTURES[config["model_type"]] != "llama":
        return values
    heads = config["num_attention_heads" if part[1] == "q" else "num_key_value_heads"]
    half = values.shape[0] // heads // 2
    sizes = (half, 2) if back else (2, half)
    return values.reshape(heads, *sizes, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)
