"""The stage `prune-to`: a smaller version of a subnet within limits, made without a search."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from nas import tasks
from nas.core.evaluation import place, score
from nas.core.measures import Limit, devices_of
from nas.core.names import SUBNETS
from nas.core.pricing import Prices, load_devices
from nas.core.progress import StageProgress
from nas.core.subnet import HistoryStep, Subnet, check_free, finite, write_derived
from nas.stages.prune_to.methods import OrderedModel, SmallerVersion, ordered, smaller_versions
from nas.stages.prune_to.request import PruneToRequest
from nas.tasks.base import Prepared
from search_spaces import Architecture, InputError
from search_spaces.errors import Command, Option
from supernet import Transformer, extract
from supernet.compression.quantised import Quantised
from supernet.filling import fill
from supernet.store import WeightStore
from supernet.train.opening import importance_batches
from supernet.train.ordering.groups import find_groups
from supernet.train.ordering.scores import score_groups
from supernet.train.recipe import Recipe


@dataclass(frozen=True)
class PruneToResult:
    """A subnet and the smaller one.

    Args:
        limits: each limit with the value of the smaller one.
        kept: what it kept, as text, by name: see `kept_words`.
    """

    before: Subnet
    after: Subnet
    limits: Sequence[tuple[Limit, float]]
    kept: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Data for JSON output."""
        return {"folder": str(self.after.path), "key": self.after.arch.key, "kept": dict(self.kept),
                "limits": [{"measure": limit.measure.name, "max": limit.value, "value": value}
                           for limit, value in self.limits],
                "metrics": self.after.facts.metrics, "costs": self.after.facts.costs,
                "original": {"folder": str(self.before.path), "key": self.before.arch.key,
                             "metrics": self.before.facts.metrics, "costs": self.before.facts.costs}}


@dataclass(frozen=True)
class _Data:
    """The data of a subnet's run; an imported model may have none."""

    prepared: Prepared
    recipe: Recipe
    task: str

    @classmethod
    def of(cls, subnet: Subnet) -> _Data | None:
        if not subnet.facts.run:
            return None
        config = subnet.run().config()
        return cls(subnet.prepared(), config.training, config.task)


def run(request: PruneToRequest, progress: StageProgress) -> PruneToResult:
    """Rank, choose, extract, evaluate and write.

    Raises:
        InputError: nothing that the method makes is within the limits, or the subnet cannot be pruned.
    """
    subnet = Subnet.open(request.subnet)
    model, prices = subnet.model(), _prices(request, subnet)
    if isinstance(model, Quantised):
        raise InputError(str(subnet.path), f"is already {model.how.scheme}, which must be the last step; use the model "
                                           "it was made from")
    folder = request.out or _folder(subnet, request.method_name)
    check_free(folder)
    with progress.breakable():
        data = _Data.of(subnet)
        if data is None and request.method_name != "layers":
            progress.note("note: the subnet has no data, so importance is the magnitude of weights")
        progress.status("ranking by importance ...")
        ranked = _ranked(request, model, data)
        progress.status("choosing ...")
        chosen, values = _choose(request, subnet, ranked, prices)
        smaller = extract(ranked.store, chosen.arch).eval()
        progress.status("evaluating ...")
        kept = kept_words(subnet.arch, chosen)
        after = _write(request, subnet, smaller, data, kept, folder)
    return PruneToResult(subnet, after, list(zip(request.limits, values)), kept)


def _folder(subnet: Subnet, method: str) -> Path:
    parent = subnet.run().path / SUBNETS if subnet.facts.run else subnet.path.resolve().parent
    return parent / f"{subnet.path.resolve().name}-{method}"


def _prices(request: PruneToRequest, subnet: Subnet) -> Prices:
    """Raises InputError if a limit has no value for the subnet itself."""
    measures = [limit.measure for limit in request.limits]
    prices = Prices(load_devices(devices_of(measures)), subnet.arch.context)
    for measure in measures:
        try:
            prices.values([measure], [subnet.arch])
        except InputError as error:
            if measure.device is None:
                raise
            reason = error.faults[0].reason
            raise InputError(measure.device, f"{reason}; {_profile_around(subnet, measure.device)}") from None
    return prices


def _profile_around(subnet: Subnet, device: str) -> str:
    """How to profile a model and everything smaller."""
    space = f"{subnet.path.resolve().name}.yaml"
    return f"run {Command('space-from', str(subnet.path), out=space)} and {Command('profile', device, space=space)}"


def _ranked(request: PruneToRequest, model: Transformer, data: _Data | None) -> OrderedModel:
    """The model with its channels in order; layers have no order."""
    store = WeightStore.of(model.arch).to(next(model.parameters()).dtype)
    fill(store, model)
    if request.method_name == "layers":
        return OrderedModel(model.arch, store, (), {})
    groups, recipe = find_groups(model.arch).groups, data.recipe if data else Recipe(device="cpu")
    here = place(copy.deepcopy(model), recipe)
    batches = importance_batches(data.prepared.train, recipe, next(here.parameters()).device) if data else []
    scores = {name: values.cpu() for name, values in score_groups(here, groups, batches, request.scored_by).items()}
    if request.scored_by != "taylor" or data is None:
        scores = _comparable(scores)
    return ordered(store, model, groups, scores)


def _comparable(scores: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Scores relative to the mean of their group: magnitudes of different layers are not comparable."""
    return {name: values / values.mean().clamp(min=1e-12) for name, values in scores.items()}


def _choose(request: PruneToRequest, subnet: Subnet, ranked: OrderedModel,
            prices: Prices) -> tuple[SmallerVersion, list[float]]:
    """The first version within all limits, and its values. Raises InputError if there is none.

    Every version is tried in turn: latencies do not always fall with the size, so bisection could miss a larger one.
    """
    measures = [limit.measure for limit in request.limits]
    on_devices = [measure for measure in measures if measure.device is not None]

    def priced(arch: Architecture) -> bool:
        try:
            prices.values(on_devices, [arch])
        except InputError:
            return False
        return True

    tried: list[list[float]] = []
    for version in smaller_versions(request, ranked, priced):
        values = prices.values(measures, [version.arch])[0].tolist()
        if _excess(request, values) <= 0:
            if version.arch == subnet.arch:
                raise InputError(str(subnet.path), "is already within the limits; nothing to prune")
            return version, values
        tried.append(values)
    if not tried:
        raise InputError(str(subnet.path), f"cannot be made smaller by the method {request.method_name}")
    raise _impossible(request, subnet, min(tried, key=lambda values: _excess(request, values)), len(tried) == 1)


def _excess(request: PruneToRequest, values: Sequence[float]) -> float:
    """How far the worst value is above its limit; at most 0 if all limits hold."""
    return max((limit.excess(value) for limit, value in zip(request.limits, values)), default=0.0)


def _impossible(request: PruneToRequest, subnet: Subnet, nearest: Sequence[float],
                alone: bool) -> InputError:
    """An error with the nearest value, and what to do if the profile is the reason: the model was the only version."""
    limit, value = max(zip(request.limits, nearest), key=lambda pair: pair[0].excess(pair[1]))
    bound = f"{limit.measure.name}={limit.measure.show_bound(value, above=False)}"
    if request.layers:
        return InputError(Option("max"), f"{limit} is not met with these layers: {bound}")
    few = f"; its profile has no smaller sizes: {_profile_around(subnet, limit.measure.device)}" if (
        alone and limit.measure.device and request.method_name != "layers") else ""
    return InputError(Option("max"), f"{limit} cannot be met by the method {request.method_name}; the nearest is "
                                     f"{bound}{few}")


def kept_words(before: Architecture, after: SmallerVersion) -> dict[str, str]:
    """What a candidate kept of an architecture: every number that changed."""
    changes = {} if after.arch.width == before.width else {"width": f"{after.arch.width} of {before.width}"}
    for name in ("embedding", "head"):
        for dim, whole in getattr(before, name).dims:
            now = dict(getattr(after.arch, name).dims).get(dim, whole)
            if now != whole:
                changes[f"{name} {dim}"] = f"{now} of {whole}"
    for stack, layers in before.stacks.items():
        kept = after.layers[stack]
        if len(kept) < len(layers):
            changes[f"{stack} layers"] = f"{', '.join(map(str, kept))} of {len(layers)}"
        pairs = [(layers[i], now) for i, now in zip(kept, after.arch.stacks[stack])]
        for role in ("mixer", "cross", "ffn"):
            changes |= _kept_dims(f"{stack} {role}", [(getattr(old, role), getattr(new, role)) for old, new in pairs])
    return changes


def _kept_dims(name: str, blocks: Sequence[tuple[Any, Any]]) -> dict[str, str]:
    """The dims of a sub-layer that changed: one value where all layers are alike, else one for each layer."""
    changes = {}
    for dim in dict.fromkeys(dim for old, _ in blocks if old is not None for dim, _ in old.dims):
        pairs = [(old[dim], new[dim]) for old, new in blocks if old is not None and dim in dict(old.dims)]
        if any(old != new for old, new in pairs):
            whole, now = dict.fromkeys(old for old, _ in pairs), [new for _, new in pairs]
            shown = [now[0]] if len(set(now)) == 1 else now
            changes[f"{name} {dim}"] = f"{', '.join(map(str, shown))} of {', '.join(map(str, whole))}"
    return changes


def _write(request: PruneToRequest, subnet: Subnet, model: Transformer, data: _Data | None, kept: Mapping[str, str],
           folder: Path) -> Subnet:
    """Evaluate on the whole validation split, if there is one, and write the folder."""
    metrics = {} if data is None else score(place(copy.deepcopy(model), data.recipe), model.arch, tasks.get(data.task),
                                            data.prepared, data.recipe, full=True)
    score_used = {} if request.method_name == "layers" else {"score": request.scored_by}
    settings = {"method": request.method_name, **score_used,
                **({"max": ", ".join(map(str, request.limits))} if request.max else {}), **kept}
    step = HistoryStep(stage="prune", settings=settings, metrics=finite(metrics))
    return write_derived(folder, subnet, model, step, [limit.measure.name for limit in request.limits])
