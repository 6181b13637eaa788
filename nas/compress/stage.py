"""The stage `nas compress`: a subnet's folder in, another with the smaller model out."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from rich.console import Console

from nas import tasks
from nas.compress._base import Technique, Work
from nas.config import FREE, OF_SUPERNETS, make_recipe, recipe_of_one, unknown_setting
from nas.costs import count
from nas.extract import finite
from nas.run_dir import RunDir, locked
from nas.search.measures import parse_measure
from nas.search.pricing import Prices, load_devices
from nas.subnet import Made, Subnet, check_free, write_subnet
from nas.train import Stop, place, score
from search_spaces import Architecture, Fault, InputError
from supernet import Transformer
from supernet.pretrained import QUANTISATION, WEIGHTS, stored
from supernet.recipe import Recipe
from supernet.writing import delete

SHARE = 10
"""A training on the way has one step in so many of the supernet's."""
EVALUATION = ("device", "precision", "batch_size")
"""Settings that mean something without a training."""


@dataclass(frozen=True)
class Compressed:
    """A subnet and what was made of it."""

    before: Subnet
    after: Subnet

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        return {"folder": str(self.after.path), "key": self.after.arch.key, "metrics": self.after.facts.metrics,
                "bytes": size_on_disk(self.after.path), "costs": self.after.facts.costs,
                "settings": self.after.facts.made[-1].settings,
                "original": {"folder": str(self.before.path), "key": self.before.arch.key,
                             "metrics": self.before.facts.metrics, "bytes": size_on_disk(self.before.path),
                             "costs": self.before.facts.costs}}


def size_on_disk(folder: Path) -> int:
    """The bytes of a subnet's weights, and of what says how they are kept."""
    return sum(path.stat().st_size for name in (WEIGHTS, QUANTISATION) if (path := folder / name).is_file())


def compress(name: str, technique: Technique, settings: Mapping[str, str], out: str | None, console: Console,
             stop: Stop = lambda: False) -> Compressed | None:
    """Apply a technique to a subnet and write the result; None where `stop` ended it early. Raises InputError."""
    subnet = Subnet.open(name)
    run, model, task = subnet.run(), subnet.model(), tasks.get(subnet.facts.task)
    technique, recipe, tunes = configured(technique, settings, run.config().training)
    folder = Path(out) if out else run.path / "subnets" / f"{subnet.path.resolve().name}-{technique.suffix}"
    check_free(folder)
    try:
        technique.check(model, recipe)
    except InputError as error:
        raise InputError(error.where or str(subnet.path), error.faults) from None
    work = Work(model, task, subnet.prepared(), recipe, tunes, _state(run, subnet, folder, technique, recipe), console,
                stop)
    made = _applied(technique, work)
    if made is None or stop():
        return None
    with console.status("evaluating ..."):
        after = _write(subnet, technique, work, made, folder)
    delete(work.folder)
    return Compressed(subnet, after)


def configured(technique: Technique, settings: Mapping[str, str], base: Recipe) -> tuple[Technique, Recipe, bool]:
    """The technique with its own settings, the recipe, and whether it trains. Raises InputError with what is wrong."""
    own = {key: value for key, value in settings.items() if key in technique.settable}
    others = {key: value for key, value in settings.items() if key not in own}
    try:
        technique = type(technique).model_validate({**technique.model_dump(), **own})
    except ValidationError as error:
        raise InputError("--set", [Fault(str(each["loc"][0]), f"{each['input']!r} is not allowed: {each['msg']}")
                                   for each in error.errors()]) from None
    declined = others.get("steps", "0" if technique.trains == "on request" else "") == "0"
    tunes = technique.trains == "always" or (technique.trains != "never" and not declined)
    if not tunes and technique.trains != "never":
        others.pop("steps", None)
    allowed = set(Recipe.model_fields) - set(OF_SUPERNETS) if tunes else set(EVALUATION)
    faults = [Fault(key, _useless(key, technique)) for key in others if key not in allowed]
    if faults:
        raise InputError("--set", faults)
    recipe = recipe_of_one(base, others, SHARE, technique.lr_share) if tunes else make_recipe(others, base)
    return technique, recipe, tunes


def _useless(key: str, technique: Technique) -> str:
    if key not in Recipe.model_fields:
        return unknown_setting(key, (*technique.settable, *Recipe.model_fields))
    if key in OF_SUPERNETS:
        return "is for supernets; a subnet is one architecture"
    how = "" if technique.trains == "never" else "; set steps too"
    return f"has no effect: nothing is trained{how}"


def _state(run: RunDir, subnet: Subnet, out: Path, technique: Technique, recipe: Recipe) -> Path:
    """Where trainings keep their state: one place for all that decides the result."""
    weights = hashlib.sha256((subnet.path / WEIGHTS).read_bytes()).hexdigest()
    decides = [weights, technique.name, technique.model_dump(), recipe.model_dump(exclude=set(FREE))]
    digest = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:12]
    return run.path / "compressing" / f"{out.name}-{digest}"


def _applied(technique: Technique, work: Work) -> Transformer | None:
    if not work.tunes:
        with work.console.status(f"{technique.name} ..."):
            return technique.apply(work)
    work.folder.mkdir(parents=True, exist_ok=True)
    with locked(work.folder, "compression"):
        return technique.apply(work)


def _write(subnet: Subnet, technique: Technique, work: Work, made: Transformer, folder: Path) -> Subnet:
    """Measure the result on the whole validation split and write its folder."""
    here = place(copy.deepcopy(made), work.recipe)
    metrics = score(here, made.arch, work.task, work.prepared, work.recipe, full=True)
    recipe = {"steps": work.recipe.steps, "lr": work.recipe.lr} if work.tunes else {}
    settings = {"technique": technique.name, **technique.told(work.model, made), **recipe}
    facts = subnet.facts.then(Made(stage="compress", settings=settings, metrics=finite(metrics)), key=made.arch.key,
                              costs=_costs(subnet, made))
    return write_subnet(folder, made, subnet.tokenizer(), facts)


def _costs(subnet: Subnet, made: Transformer) -> dict[str, float]:
    """The costs of the result: its weights as they are kept, and all others anew where the architecture changed."""
    costs = dict(subnet.facts.costs) if made.arch == subnet.arch else _counted(subnet.facts.costs, made.arch)
    return {**costs, "weight_bytes": float(sum(each.nbytes for each in stored(made)[1].values()))}


def _counted(known: Mapping[str, float], arch: Architecture) -> dict[str, float]:
    """Costs of another architecture; a device that has no price for one of its units has none for it."""
    cost = count(arch, arch.context)
    found = {"params": float(cost.params), "macs": float(cost.macs)}
    for name in known:
        measure = parse_measure(name, {})
        if measure.device is not None:
            try:
                prices = Prices(load_devices([measure.device]), arch.context)
                found[name] = float(prices.values([measure], [arch])[0, 0])
            except InputError:
                continue
    return found
