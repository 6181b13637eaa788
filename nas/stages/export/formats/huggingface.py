"""A folder for transformers, with the config of a stock class where one can hold the model (see `stock.py`).

Otherwise `AutoModel.from_pretrained(folder, trust_remote_code=True)` loads it: its modelling file contains the source
of exactly the modules that this architecture needs. It runs without this project, and users can read the code before
they trust it.
"""

# mypy: disable-error-code="import-untyped, import-not-found, no-untyped-call, attr-defined"

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from safetensors.torch import save_file
from torch import Tensor

from hardware_profiles.quiet import quiet
from nas.stages.export.bundle import Bundle
from nas.stages.export.folder import sample_text
from nas.stages.export.job import ExportJob, Inputs, Run
from nas.stages.export.reading import label_names, reading_tokenizer, special_ids
from nas.stages.export.stock import fits_stock, is_stock, load_stock, write_imported_tokenizer, write_stock
from nas.tasks.tokenizer import SPECIALS
from search_spaces import Architecture, InputError
from search_spaces import registry as kinds
from search_spaces import residual as residuals
from search_spaces.units import SUBLAYERS, Unit, plan
from supernet.cache import decoder_steps, empty_states

HELP = "a folder that transformers loads"
DYNAMIC, INT8 = True, False
MODEL, MODULE = "nas.stages.export._hugging_model", "modeling_paretoformer"
OPENING = """\
# A model that Paretoformer found, for transformers. Apache License 2.0."""
CLASSES = {"lm": ("ParetoformerForCausalLM", "AutoModelForCausalLM"),
           "seq2seq": ("ParetoformerForSeq2SeqLM", "AutoModelForSeq2SeqLM"),
           "classes": ("ParetoformerForSequenceClassification", "AutoModelForSequenceClassification"),
           "words": ("ParetoformerForMaskedLM", "AutoModelForMaskedLM"), "features": ("ParetoformerModel", "AutoModel")}
"""Output type -> model class, and the transformers auto class."""


def missing() -> str | None:
    """Why it is not available here; None if it is."""
    if find_spec("transformers") is None:
        return "transformers is not installed; run `pip install 'paretoformer[huggingface]'`"
    return None


def write(job: ExportJob, folder: Path) -> dict[str, Any]:
    """The config, the weights and the tokenizer; and the modelling file, unless a stock class can hold the model."""
    stock = write_stock(job, folder)
    if stock is not None:
        _write_tokenizer(job, folder)
        return stock
    arch, (cls, auto) = job.arch, CLASSES[_gives(job.arch)]
    (folder / f"{MODULE}.py").write_text(_code(arch, cls), "utf-8")
    _write_json(folder / "config.json", _config(job, cls, auto))
    if arch.family != "encoder":
        settings = {name: i for name, i in special_ids(arch).items() if name != "unk_token_id"}
        longest = arch.context + (arch.family == "seq2seq")  # a target begins with a token that is not written
        _write_json(folder / "generation_config.json", {**settings, "max_length": longest, "use_cache": _caches(arch)})
    tensors = {f"plain.{name}": tensor.contiguous() for name, tensor in job.model.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    _write_tokenizer(job, folder)
    return {"class": auto, "transformers": version("transformers")}


def usage(job: ExportJob, folder: str) -> list[str]:
    """Lines that load the folder and run it on a text."""
    _, auto = CLASSES[_gives(job.arch)]
    sample, task = sample_text(job), "generate" if job.arch.family != "encoder" else ""
    given = f'tokenizer({sample!r}, return_tensors="pt")'
    run = f"tokenizer.decode(model.generate(**{given})[0], skip_special_tokens=True)" if task else f"model(**{given})"
    code = "" if fits_stock(job) else ", trust_remote_code=True"  # a stock class has no code of ours
    return [f"from transformers import {auto}, PreTrainedTokenizerFast as Tokenizer",
            f"model, tokenizer = {auto}.from_pretrained({folder!r}{code}), "
            f"Tokenizer.from_pretrained({folder!r})", f"print({run})"]


def load(job: ExportJob, folder: Path) -> Run:
    """Runs the folder as its users do, by its own code or that of a stock class."""
    if is_stock(folder):
        return load_stock(job, folder)
    with _own_modules():
        from transformers import AutoModel

        model = AutoModel.from_pretrained(folder, trust_remote_code=True).eval()

    def first(inputs: Inputs) -> Tensor:
        with torch.no_grad():
            return torch.as_tensor(model(**dict(zip(job.names, inputs)))[0])

    return first


def _gives(arch: Architecture) -> str:
    if arch.family != "encoder":
        return arch.family
    return "classes" if arch.n_classes else "words" if kinds.get(arch.head.kind).over_words else "features"


def _code(arch: Architecture, cls: str) -> str:
    """The modelling file. Raises InputError that names a block whose source cannot be copied."""
    modules = {f"block {step.unit.block.kind}": kinds.get(step.unit.block.kind).module
               for step in plan(arch) if step.unit.role != "norm"}
    residual = residuals.get(arch.residual).module
    own = (item.__module__.split(".")[0] for item in (*modules.values(), residual))
    bundle = Bundle({"supernet", "search_spaces", *own})
    for name in ("BLOCKS", "RESIDUALS", "ParetoformerConfig", cls):
        bundle.add(MODEL, name)
    for what, module in {**modules, f"residual {arch.residual}": residual}.items():
        try:
            bundle.add(module.__module__, _name(module))
        except InputError as error:
            raise InputError(what, f"cannot be exported to huggingface: {error}") from None
    named = sorted({f'"{_name(module)}": {_name(module)}' for module in modules.values()})
    return bundle.text(OPENING, f"BLOCKS.update({{{', '.join(named)}}})\n"
                                f'RESIDUALS.update({{"{_name(residual)}": {_name(residual)}}})')


def _name(module: Any) -> str:
    """The class name of a block's module."""
    return str(getattr(module, "__qualname__", module))


def _config(job: ExportJob, cls: str, auto: str) -> dict[str, Any]:
    arch = job.arch
    return {
        "model_type": "paretoformer", "architectures": [cls], "dtype": "float32", "vocab_size": arch.vocab_size,
        "hidden_size": arch.width, "num_hidden_layers": arch.depth, "context": arch.context,
        "max_position_embeddings": arch.context, "is_encoder_decoder": arch.family == "seq2seq",
        "tie_word_embeddings": False, "use_cache": _caches(arch), **special_ids(arch), **label_names(job.subnet),
        "auto_map": {"AutoConfig": f"{MODULE}.ParetoformerConfig",
                     **dict.fromkeys(("AutoModel", auto), f"{MODULE}.{cls}")},
        "units": {step.path: _unit(step.unit) for step in plan(arch)},
        "steps": [[step.path, step.role, step.stack, step.ties] for step in plan(arch)]}


def _unit(unit: Unit) -> dict[str, Any]:
    facts = dict(unit.facts)
    if unit.role == "norm":
        return {"role": "norm", "module": unit.block.kind, "settings": facts}
    kind = kinds.get(unit.block.kind)
    record = {"role": unit.role, "module": _name(kind.module), "settings": unit.settings()}
    if unit.role in SUBLAYERS:
        residual = residuals.get(str(facts.get("residual", residuals.PLAIN)))
        record |= {"residual": _name(residual.module), "around": unit.pick(residual.facts)}
    return record


def _write_tokenizer(job: ExportJob, folder: Path) -> None:
    """In the format of transformers 4, which 5 also reads. Prompts for generation are padded on the left."""
    arch = job.arch
    if job.subnet.facts.brings_tokenizer:
        write_imported_tokenizer(job, folder)
        return
    names = {name.removesuffix("_id"): SPECIALS[i] for name, i in special_ids(arch).items()
             if not name.startswith("decoder")}
    inputs = [name for name in ("input_ids", "token_type_ids", "attention_mask")
              if name != "token_type_ids" or arch.n_types]
    reading_tokenizer(job.subnet).save(str(folder / "tokenizer.json"))
    _write_json(folder / "special_tokens_map.json", names)
    _write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", **names, "model_max_length": arch.context,
        "padding_side": "left" if arch.family == "lm" else "right", "truncation_side": "right",
        "clean_up_tokenization_spaces": False, "model_input_names": inputs})


def _caches(arch: Architecture) -> bool:
    """Whether all blocks of its decoder can read token by token."""
    try:
        return bool(decoder_steps(arch)) and bool(empty_states(arch, 1, torch.zeros(0)))
    except InputError:
        return False


def _write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2) + "\n", "utf-8")


@contextmanager
def _own_modules() -> Iterator[None]:
    """Keep transformers' copies of modelling files and its output out of the user's environment."""
    with quiet(), tempfile.TemporaryDirectory() as folder:
        from transformers import dynamic_module_utils

        path, loaded = list(sys.path), set(sys.modules)
        try:
            with mock.patch.object(dynamic_module_utils, "HF_MODULES_CACHE", folder):
                yield
        finally:
            sys.path[:] = path
            for name in set(sys.modules) - loaded:
                if name.split(".")[0] == dynamic_module_utils.TRANSFORMERS_DYNAMIC_MODULE_NAME:
                    del sys.modules[name]
