"""A model as a stock class of transformers, where one can hold it: `from_pretrained` needs no code of ours.

Importers choose the class: the one whose config round-trips to the same architecture.
"""

# mypy: disable-error-code="import-untyped, import-not-found, no-untyped-call, attr-defined"

from __future__ import annotations

import json
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from hardware_profiles.quiet import quiet
from nas.importers import NotExpressibleError, StockModel, stock_models, stock_tensors
from nas.stages.export.job import ExportJob, Inputs, Run
from nas.stages.export.reading import label_names, special_ids

NAMES = {"pad": "pad_token_id", "bos": "bos_token_id", "eos": "eos_token_id", "begin": "decoder_start_token_id"}


def write_stock(job: ExportJob, folder: Path) -> dict[str, Any] | None:
    """Write config and weights of a stock class; returns facts to store, or None if no class can hold it."""
    held = _held(job)
    if held is None:
        return None
    config, stock, tensors = held
    _write_json(folder / "config.json", _config(job, config, stock))
    ids = token_ids(job)
    if job.arch.family != "encoder":
        _write_json(folder / "generation_config.json", {name: i for name, i in ids.items() if "unk" not in name})
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return {"class": stock.cls, "transformers": version("transformers")}


def fits_stock(job: ExportJob) -> bool:
    """Whether a stock class can hold the model."""
    return _held(job) is not None


def _held(job: ExportJob) -> tuple[dict[str, Any], StockModel, dict[str, Tensor]] | None:
    """Public config, class and tensors of the first class that can hold the model."""
    for importer, config, stock in stock_models(job.arch, job.subnet.facts.model_type):
        with suppress(NotExpressibleError):
            tensors = stock_tensors(job.model, importer, stock)
            public = {name: value for name, value in config.items() if name not in importer.private_fields}
            return public, stock, dict(tensors)
    return None


def token_ids(job: ExportJob) -> dict[str, int]:
    """The ids of special tokens, under the names that transformers has for them."""
    facts = job.subnet.facts
    if facts.brings_tokenizer:
        return {NAMES[name]: i for name, i in facts.specials.items() if name in NAMES}
    return special_ids(job.arch)


def write_imported_tokenizer(job: ExportJob, folder: Path) -> None:
    """The tokenizer of an imported model, as it came, with the names of its special tokens."""
    tokenizer, specials = job.subnet.tokenizer(), job.subnet.facts.specials
    names = {f"{name}_token": tokenizer.id_to_token(i) for name, i in specials.items() if name in ("pad", "bos", "eos")}
    inputs = ["input_ids", *(["token_type_ids"] if job.arch.n_types > 1 else []), "attention_mask"]
    tokenizer.save(str(folder / "tokenizer.json"))
    _write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", **{name: word for name, word in names.items() if word},
        "model_max_length": job.arch.context, "clean_up_tokenization_spaces": False, "model_input_names": inputs})


def is_stock(folder: Path) -> bool:
    """Whether an export is of a stock class: it has no code."""
    return not list(folder.glob("modeling_*.py"))


def load_stock(job: ExportJob, folder: Path) -> Run:
    """Runs the folder with transformers only."""
    with quiet():
        import transformers

        config = json.loads((folder / "config.json").read_text("utf-8"))
        model = getattr(transformers, config["architectures"][0]).from_pretrained(folder).eval()
    head, first_position = job.arch.head, config.get("pad_token_id", 0) + 1 if _counts_padding(config) else None

    def first(inputs: Inputs) -> Tensor:
        given = dict(zip(job.names, inputs))
        if first_position is not None:  # these classes count the tokens that are not padding
            given["position_ids"] = torch.arange(inputs[0].shape[1]).expand_as(inputs[0]) + first_position
        with torch.no_grad():
            outputs = model(**given)
        return torch.as_tensor(outputs.pooler_output if head.kind == "features" and head["pooler"] else outputs[0])

    return first


def _counts_padding(config: dict[str, Any]) -> bool:
    return "roberta" in config["model_type"]


def _config(job: ExportJob, config: dict[str, Any], stock: StockModel) -> dict[str, Any]:
    ids = token_ids(job)
    settings = {**config, **ids, "dtype": "float32"}
    if _counts_padding(config):
        settings["pad_token_id"] = config["pad_token_id"]
    elif job.arch.family == "seq2seq":
        settings = {"pad_token_id": 0, "eos_token_id": 0, "decoder_start_token_id": 0, **settings}
    labels = label_names(job.subnet)
    if job.arch.n_classes and not labels:
        labels = {"id2label": {i: f"LABEL_{i}" for i in range(job.arch.n_classes)}}
    return {**settings, **labels}


def _write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2) + "\n", "utf-8")
