"""The folder of one subnet: a plain model with its tokenizer, facts and model card.

`architecture.json` and `model.safetensors` are the model, `tokenizer.json` makes its tokens, `metrics.json` holds the
`SubnetFacts`, and `README.md` is the model card. Stages take such a folder; those that change the model write
a new one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from safetensors import SafetensorError
from tokenizers import Tokenizer

from nas.core.evaluation import prepare
from nas.core.measures import Measure
from nas.core.names import CONFIG, ROOT, SUBNETS, known_runs, matching, run_and_key, subnets_in
from nas.core.pricing import Prices, device_costs
from nas.core.run_dir import RunDir, write_json
from nas.tasks.base import Prepared
from nas.tasks.tokenizer import parse_tokenizer
from search_spaces import Architecture, InputError, load_architecture
from search_spaces.errors import Command, Option, did_you_mean
from search_spaces.files import ARCHITECTURE
from search_spaces.files.reading import checked, read_json, read_text
from search_spaces.files.writing import delete, whole
from supernet import Transformer
from supernet.pretrained import REMEDY, save_model

FACTS, TOKENIZER = "metrics.json", "tokenizer.json"
WRITES = f"{Command('extract')} writes subnets"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class HistoryStep(_Frozen):
    """One step of a model's history, and its metrics afterwards.

    Args:
        settings: settings of the step, for display.
        metrics: on the whole validation split.
    """

    stage: Literal["import", "extract", "adapt", "prune", "retrain", "compress"]
    settings: dict[str, Any] = Field(default_factory=dict)
    metrics: dict[str, float | None] = Field(default_factory=dict)


class Measured(_Frozen):
    """A latency that was predicted and then measured, by `nas measure`."""

    predicted_ms: float | None
    measured_ms: float
    unmeasured_share: float = 0.0
    """Share of the predicted latency that is based on interpolated or estimated unit latencies."""
    conditions: dict[str, Any] = Field(default_factory=dict)


class SubnetFacts(_Frozen):
    """Facts about a subnet besides its weights: the content of `metrics.json`.

    Args:
        run: the folder of the run it came from, which has its data; empty for an imported model.
        labels: the names of the model's outputs, where the task has any.
        scale: mean and standard deviation of the training labels, where the model predicts a number in units of these.
        made: its history, oldest first; the last metrics are those of the model.
        costs: by the names a search has for them: params, macs, weight_bytes, latency:DEVICE, ...
        unmeasured_share: by the names of latencies, the share that is based on interpolated or estimated prices;
            subnets of older versions have none.
        measured: by the names of latencies.
        exports: exports by `nas export`, by format.
        specials: of an imported model, the ids of its special tokens: pad, bos, eos, and begin of a decoder. Its
            tokenizer adds them to a text by itself.
    """

    schema_version: Literal[1] = 1
    key: str
    task: str
    run: str
    data: dict[str, str] = Field(default_factory=dict)
    labels: tuple[str, ...] = ()
    scale: tuple[float, float] | None = None
    made: tuple[HistoryStep, ...] = ()
    costs: dict[str, float] = Field(default_factory=dict)
    unmeasured_share: dict[str, float] = Field(default_factory=dict)
    measured: dict[str, Measured] = Field(default_factory=dict)
    exports: dict[str, dict[str, Any]] = Field(default_factory=dict)
    specials: dict[str, int] = Field(default_factory=dict)

    @property
    def metrics(self) -> dict[str, float | None]:
        """How good the model is."""
        return self.made[-1].metrics if self.made else {}

    @property
    def imported(self) -> bool:
        """Whether it is a pretrained model, or was derived from one."""
        return bool(self.made) and self.made[0].stage == "import"

    @property
    def model_type(self) -> str:
        """The `model_type` of the checkpoint it was imported from; empty for a model of our own."""
        return str(self.made[0].settings.get("model_type", "")) if self.imported else ""

    @property
    def brings_tokenizer(self) -> bool:
        """Whether its tokenizer is a published one, which adds special tokens to a text itself."""
        return self.imported or bool(self.specials)

    def show(self, measure: Measure) -> str:
        """A cost as text, marked if partly unmeasured."""
        return measure.show(self.costs[measure.name], self.unmeasured_share.get(measure.name, 0.0))

    def then(self, step: HistoryStep, **changed: Any) -> SubnetFacts:
        """The facts after another step; earlier measurements and exports are dropped, because they belong to another
        model."""
        return self.model_copy(update={"made": (*self.made, step), "measured": {}, "exports": {}, **changed})


@dataclass(frozen=True)
class Subnet:
    """A subnet's folder, opened."""

    path: Path
    arch: Architecture
    facts: SubnetFacts

    @classmethod
    def open(cls, name: str) -> Subnet:
        """A subnet by its folder, or by RUN/KEY with as much of the key as makes it unique. Raises InputError."""
        path = _folder(name)
        arch = load_architecture(path)
        facts = checked(SubnetFacts, read_json(path / FACTS, REMEDY), str(path / FACTS), REMEDY)
        if arch.key != facts.key:
            raise InputError(str(path / ARCHITECTURE), f"is the architecture {arch.key[:12]}, but {FACTS} belongs to "
                                                       f"{facts.key[:12]}", REMEDY)
        return cls(path, arch, facts)

    def model(self, dropout: float = 0.0) -> Transformer:
        """Its weights, in eval mode. Raises InputError if the files are damaged."""
        return Transformer.from_pretrained(self.path, dropout=dropout)

    def tokenizer(self) -> Tokenizer:
        """Its tokenizer. Raises InputError if the file is missing, damaged or of another vocabulary."""
        path = self.path / TOKENIZER
        try:
            tokenizer = parse_tokenizer(read_text(path, REMEDY))
        except InputError:
            raise
        except Exception as error:  # the library raises Exception itself
            reason = getattr(error, "strerror", None) or "the file is damaged"
            raise InputError(str(path), f"cannot be read ({reason})", REMEDY) from None
        n = tokenizer.get_vocab_size()
        if n > self.arch.vocab_size or (n != self.arch.vocab_size and not self.facts.brings_tokenizer):
            raise InputError(str(path), f"has {n:,} tokens, but the model has a vocabulary of "
                                        f"{self.arch.vocab_size:,}", REMEDY)
        return tokenizer

    def run(self) -> RunDir:
        """Its run, which has the data. Raises InputError if that is gone."""
        if not self.facts.run:
            remedy = Command("retrain", str(self.path), task="TASK", data={"train": "FILE"})
            raise InputError(str(self.path), "is an imported model without a run, so there are no data to train or "
                                             f"evaluate it with; fine-tune it first: {remedy}")
        around = self.path.resolve().parent
        for folder in (*([around.parent] if around.name == SUBNETS else []), Path(self.facts.run)):
            if (folder / CONFIG).is_file():
                return RunDir.open(os.path.relpath(folder) if folder.is_relative_to(Path.cwd()) else str(folder))
        raise InputError(str(self.path), f"its run {self.facts.run} does not exist here; the data of the run are "
                                         "needed")

    def prepared(self) -> Prepared:
        """Its training and validation data. Raises InputError if they are gone or of another vocabulary."""
        run = self.run()
        prepared = prepare(run)
        if prepared.tokenizer.get_vocab() != self.tokenizer().get_vocab():
            raise InputError(str(self.path), f"has a different vocabulary than the data of {run.path}; use it with its "
                                             f"own run, {self.facts.run}")
        return prepared

    def write_facts(self, facts: SubnetFacts) -> Subnet:
        """Replace `metrics.json` and the model card."""
        from nas.core.model_card import write_card

        write_json(self.path / FACTS, facts.model_dump())
        changed = Subnet(self.path, self.arch, facts)
        write_card(changed)
        return changed


def write_subnet(folder: Path, model: Transformer, tokenizer: Tokenizer, facts: SubnetFacts,
                 files: Mapping[str, str] | None = None) -> Subnet:
    """Write a subnet's folder atomically.

    Args:
        files: what else belongs to it, by name.

    Raises:
        InputError: the folder exists, or cannot be written.
    """
    check_free(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        for left in folder.parent.glob(f".{folder.name}.*"):  # by a process that was killed
            delete(left)
        with whole(folder) as temporary:
            temporary.mkdir()
            save_model(model, temporary)
            for name, text in {TOKENIZER: tokenizer.to_str(pretty=True), **(files or {})}.items():
                (temporary / name).write_text(text, "utf-8")
            Subnet(temporary, model.arch, facts).write_facts(facts)
    except (OSError, SafetensorError) as error:
        raise InputError(str(folder), f"cannot be written ({getattr(error, 'strerror', None) or error})") from None
    return Subnet(folder, model.arch, facts)


def write_derived(folder: Path, source: Subnet, model: Transformer, step: HistoryStep,
                  measures: Iterable[str] = ()) -> Subnet:
    """Write the folder of a model that was made from a subnet, with the costs of the new model.

    Args:
        measures: names of measures to compute besides those of the source.

    Raises:
        InputError: the folder exists, or cannot be written.
    """
    facts, arch = source.facts, model.arch
    costs, shares = (facts.costs, facts.unmeasured_share) if arch == source.arch else (
        device_costs(dict.fromkeys((*facts.costs, *measures)), arch))
    facts = facts.then(step, key=arch.key, unmeasured_share=shares,
                       costs={**costs, **Prices({}, arch.context).all_of_model(model)})
    return write_subnet(folder, model, source.tokenizer(), facts)


def check_free(folder: Path) -> None:
    """Raises InputError if a folder exists, or cannot be created."""
    if folder.exists():
        raise InputError(str(folder), f"exists; delete it, or name another folder with {Option('out')}")
    parent = next(parent_folder for parent_folder in folder.absolute().parents if parent_folder.exists())
    if not (parent.is_dir() and os.access(parent, os.W_OK | os.X_OK)):
        raise InputError(str(folder), f"cannot be written: {parent} is not writable; name another folder with "
                                      f"{Option('out')}")


def _folder(name: str) -> Path:
    path = Path(name)
    if (path / ARCHITECTURE).is_file():
        return path
    run, key = run_and_key(name)
    there = subnets_in(run) if run else []
    matches = matching(key, there)
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise InputError(name, f"matches several subnets: {', '.join(subnet.name for subnet in matches)}")
    if path.is_dir():
        raise InputError(name, f"is not a subnet: it contains no {ARCHITECTURE}; {WRITES}")
    listed = f"subnets of {name.rpartition('/')[0]}: {', '.join(subnet.name for subnet in there)}" if there else ""
    raise InputError(name, f"is not the folder of a subnet; {listed or _known(name)}")


def _known(name: str) -> str:
    """A hint about existing subnets."""
    runs = known_runs()
    subnets = [f"{run}/{subnet.name}" for run in runs for subnet in subnets_in(ROOT / run)]
    hints = [f"{what} here: {', '.join(known)}" for what, known in (("runs", runs), ("subnets", subnets)) if known]
    hints += [] if subnets else [WRITES]
    return "; ".join(hints) + did_you_mean(name, [subnet for subnet in (*runs, *subnets) if subnet != name])


def finite(metrics: dict[str, float]) -> dict[str, float | None]:
    """Metrics for JSON: values that are not finite become None."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}
