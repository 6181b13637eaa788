"""What every export contains besides the model: a tokenizer, a config, a model card, and for programs a `run.py`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nas import tasks
from nas.core.model_card import CARD, card
from nas.stages.export.decoding import decoder_config
from nas.stages.export.job import ExportJob
from nas.stages.export.reading import label_names, label_scale, reading_tokenizer
from nas.stages.export.run_text import run_text
from nas.stages.export.stock import token_ids

CONFIG, TOKENIZER, RUN = "config.json", "tokenizer.json", "run.py"


def sample_text(job: ExportJob) -> str:
    """A text to try the model with; an imported encoder may have no task."""
    task = job.subnet.facts.task
    return tasks.get(task).sample if task else "a text"


def does(job: ExportJob) -> str:
    """The function of `run.py` that runs the model on a text."""
    if job.arch.family == "encoder":
        return "classify" if job.subnet.facts.labels else "outputs"
    return "outputs" if not job.decodes else "generate" if job.arch.family == "lm" else "translate"


def write_program_folder(job: ExportJob, folder: Path, fixed: bool, start: int, needs: str, imports: str,
                         load: str) -> None:
    """Tokenizer, config and `run.py`; the last arguments are those of `run_text`.

    Args:
        start: how many masked tokens the cache of the decoder begins with.
    """
    arch = job.arch
    length, ids = job.length if fixed else arch.context, token_ids(job)
    if arch.family == "seq2seq":  # of an imported model that names no start token
        ids = {"decoder_start_token_id": ids.get("bos_token_id", 0), **ids}
    config: dict[str, Any] = {
        "schema_version": 1, "model_type": "paretoformer", "family": arch.family, "task": job.subnet.facts.task,
        "key": arch.key, "vocab_size": arch.vocab_size, "context": arch.context, "length": length,
        "least_length": length if fixed else job.least_length, "inputs": list(job.names),
        **ids, **label_names(job.subnet), **label_scale(job.subnet),
        "decoder": decoder_config(job, fixed, start)}
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", "utf-8")
    tokenizer = reading_tokenizer(job.subnet)
    if arch.family != "lm":  # as short texts are padded, by whoever loads it
        pad = ids.get("pad_token_id", 0)
        tokenizer.enable_padding(length=config["least_length"], pad_id=pad, pad_token=tokenizer.id_to_token(pad))
    tokenizer.save(str(folder / TOKENIZER))
    sample = sample_text(job)
    (folder / RUN).write_text(run_text(does(job), needs, imports, load, sample), "utf-8")


def program_usage(job: ExportJob, folder: str) -> list[str]:
    """Lines that run what `write_program_folder` wrote."""
    name = does(job)
    return ["import runpy", f'{name} = runpy.run_path({folder + "/" + RUN!r})["{name}"]',
            f"print({name}({sample_text(job)!r}))"]


def write_card(job: ExportJob, folder: Path, usage: Sequence[str]) -> None:
    """The model card, with the lines that load this export."""
    (folder / CARD).write_text(card(job.subnet, usage), "utf-8")
