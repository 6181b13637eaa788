"""Checks a pipeline before its first stage, hours before the stage that would fail."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress

from hardware_profiles.device import Device, load_profile
from hardware_profiles.profile import folder_of, measured_folder
from nas import tasks
from nas.core.availability import why_not
from nas.core.durations import parse_time
from nas.core.evaluation import pick_device
from nas.core.measures import devices_of, parse_limits
from nas.core.run_dir import RunDir
from nas.core.search_config import PRUNED, SearchConfig, make_search
from nas.core.subnet import Subnet
from nas.pipeline.config import DevicePart, ExportPart, PickPart, PipelineConfig
from nas.stages.export.request import ExportRequest
from nas.stages.profile.profiling import conditions_of
from nas.stages.profile.request import LEAST_CHECKED
from nas.stages.retrain.config import make_config
from nas.stages.search import samplers
from nas.stages.search.calibration import check_enough_trained
from nas.stages.search.suggestions import named
from search_spaces import Fault, InputError, load_space
from search_spaces.errors import Option, with_references
from supernet.train.recipe import Recipe

Check = Callable[[PipelineConfig], Iterator[Fault]]
PLACES = {"objective": "objectives"}
"""Keys of a config file that differ from the option names of the command line."""


def faults(config: PipelineConfig, restart: bool = False, wrong: Collection[str] = ()) -> Iterator[Fault]:
    """All faults that would stop a stage, with their keys in the file.

    Args:
        restart: whether a run of the same name is archived first.
        wrong: keys already known to be wrong; checks that read them are skipped.
    """
    bad = set(wrong)
    for keys, check in (*CHECKS, *(NEW if restart or not _is_there(config) else OLD)):
        if bad.isdisjoint(keys):
            problems = list(check(config))
            bad |= {fault.key.partition(".")[0] for fault in problems}
            yield from problems


def _is_there(config: PipelineConfig) -> bool:
    try:
        return RunDir(config.run).config_path.is_file()
    except InputError:
        return False


def _family(config: PipelineConfig) -> Iterator[Fault]:
    yield from _refused("task", tasks.get(config.task).check, load_space(config.space))


def _training(config: PipelineConfig) -> Iterator[Fault]:
    problems = list(_refused("", config.run_config))
    yield from problems or _refused("training.device", lambda: pick_device(config.run_config().training.device))


def _data(config: PipelineConfig) -> Iterator[Fault]:
    """Faults of the data, which are read by the same code as in `prepare`."""
    try:
        seed = config.run_config().training.seed
    except InputError:  # reported under training
        seed = 0
    yield from _refused("", tasks.get(config.task).check_data, config.data, seed)


def _folder(config: PipelineConfig) -> Iterator[Fault]:
    folder = RunDir(config.run)
    yield from () if folder.config_path.is_file() else _refused("run", folder.check_free)


def _same_run(config: PipelineConfig) -> Iterator[Fault]:
    """A run with other settings is archived only on request."""
    folder = RunDir(config.run)
    try:
        differences = "; ".join(folder.config().differences(config.run_config()))
    except InputError as error:
        yield from _moved("run", error)
        return
    if differences:
        yield Fault("run", f"{folder.path} exists with other settings: {differences}; choose another run name, "
                           f"or archive this run with {Option('from')} prepare")


def _devices(config: PipelineConfig) -> Iterator[Fault]:
    for i, device in enumerate(config.devices):
        yield from _refused(f"devices.{i}", parse_time, device.budget)
        try:
            yield from _usable(f"devices.{i}", device, load_profile(device.device))
        except InputError as error:
            yield from _moved(f"devices.{i}.device", error)


def _usable(key: str, part: DevicePart, device: Device) -> Iterator[Fault]:
    why = why_not(device)
    if why and not (folder_of(part.device) / "profile.yaml").is_file():
        yield Fault(f"{key}.device", f"{part.device} cannot be used here: {why}")
    if device.estimated and part.check:
        yield Fault(f"{key}.check", f"is {part.check}, and {part.device} is estimated from a specification: there is "
                                    "nothing to compare with; set it to 0")
    elif 0 < part.check < LEAST_CHECKED:
        yield Fault(f"{key}.check", f"{part.check} is not allowed; allowed: {LEAST_CHECKED} or more, or 0 for no check")


def _conditions(config: PipelineConfig) -> Iterator[Fault]:
    for i, device in enumerate(config.devices):
        yield from _refused(f"devices.{i}.device", conditions_of, load_profile(device.device), load_space(config.space))


def _search(config: PipelineConfig) -> Iterator[Fault]:
    barred = sorted({"devices", "inputs", "schema_version"} & set(config.search))
    yield from (Fault(f"search.{name}", "is not allowed; list the devices under devices") for name in barred)
    if barred:
        return
    try:
        settings = make_search(config.search_settings(), "search")
    except InputError as error:
        yield from _moved("search", error)
    else:
        yield from _search_words(settings, config)


def _search_words(settings: SearchConfig, config: PipelineConfig) -> Iterator[Fault]:
    task = tasks.get(config.task)
    if "objectives" in config.search:
        yield from _refused("search", settings.measures, task)
    yield from _refused("search", settings.limits, task)
    yield from _refused("search", samplers.get, settings.sampler)
    for name in settings.warm_start:
        if name != PRUNED:
            yield from _refused("search.warm_start", named, name)
    if settings.calibrate is not None:
        problems = list(_refused("search.calibrate", RunDir.open, settings.calibrate))
        yield from problems or _refused("search", check_enough_trained, settings.calibrate)


def _applicable(config: PipelineConfig) -> Iterator[Fault]:
    """Measures that architectures of the space do not have, such as a cache where nothing is decoded."""
    task, arch = tasks.get(config.task), load_space(config.space).smallest()
    try:
        settings = make_search(config.search_settings(), "search")
        used = [("objectives", measure) for measure in settings.measures(task)]
        used += [("min" if limit.at_least else "max", limit.measure) for limit in settings.limits(task)]
    except InputError:  # reported under search
        return
    for key, measure in used:
        if why := measure.kind.why_not(arch):
            yield Fault(f"search.{key}", f"{measure.name}: {why}")


def _pick(config: PipelineConfig) -> Iterator[Fault]:
    for key, pick in _picks(config):
        yield from _refused(key, pick.choice)
        yield from _refused(key, parse_limits, pick.max, pick.min, tasks.get(config.task).metrics)


def _prices(config: PipelineConfig) -> Iterator[Fault]:
    """Every device that is named anywhere is profiled by this pipeline, or was before."""
    task, profiled = tasks.get(config.task), {folder_of(part.device) for part in config.devices}
    used: dict[str, tuple[str, ...]] = {}
    with suppress(InputError):  # unreadable devices are reported separately
        used["search"] = make_search({**config.search, "devices": ()}, "search").all_devices(task)
    for key, part in _picks(config):
        used[key] = (part.device,) if part.device else ()
        with suppress(InputError):
            used[key] += devices_of([limit.measure for limit in parse_limits(part.max, part.min, task.metrics)])
    for key, name in dict.fromkeys((key, name) for key, names in used.items() for name in names):
        if folder_of(name) not in profiled:
            yield from _refused(key, measured_folder, name)


def _picks(config: PipelineConfig) -> list[tuple[str, PickPart]]:
    """Every choice with its key: a single one has no number."""
    return [(f"pick.{i}" if len(config.pick) > 1 else "pick", pick) for i, pick in enumerate(config.pick)]


def _retrain(config: PipelineConfig) -> Iterator[Fault]:
    part = config.retrain
    if part is None:
        return
    try:
        base = config.run_config().training
    except InputError:  # reported under training
        base = Recipe()
    try:
        recipe = make_config(part.request(""), base, subnet="", out="").training
    except InputError as error:
        yield from _moved("retrain", error)
    else:
        yield from _refused("retrain.training.device", pick_device, recipe.device) if "device" in part.training else ()
    if part.teacher not in ("supernet", "none"):
        yield from _refused("retrain.teacher", Subnet.open, part.teacher)


def _export(config: PipelineConfig) -> Iterator[Fault]:
    def check(part: ExportPart) -> None:
        ExportRequest("", part.format, part.int8, no_decoder=part.no_decoder).check_available()

    for i, export in enumerate(config.export):
        yield from _refused(f"export.{i}", check, export)


def _refused(key: str, attempt: Callable[..., object], *given: object) -> Iterator[Fault]:
    """The faults that a call raises for the value at a key."""
    try:
        attempt(*given)
    except InputError as error:
        yield from _moved(key, error)


def _moved(key: str, error: InputError) -> Iterator[Fault]:
    """Faults with keys of the file instead of option names."""
    named = error.where.strip("_").replace("-", "_") if isinstance(error.where, Option) else ""
    place = PLACES.get(named, named)
    other = "" if place or error.where == key.rpartition(".")[2] else error.where
    for fault in error.faults:
        if other:
            yield Fault(key, _as_keys(f"{other}: {fault}"))
        else:
            yield Fault(".".join(filter(None, (key, place, fault.key))), _as_keys(fault.message))


def _as_keys(text: str) -> str:
    """A sentence whose options and settings are named as keys of the file."""
    return with_references(text, command=str, setting=lambda _, key, value: f"{key}: {value}")


def in_file(path: str, stage: str, error: InputError) -> InputError:
    """An error of a stage with keys of the pipeline's file instead of option names."""
    if not isinstance(error.where, Option):
        return error
    return type(error)(path, _moved(SECTIONS.get(stage, ""), error))


SECTIONS = {"profile": "devices", "train": "training", "search": "search", "extract": "pick", "retrain": "retrain",
            "export": "export"}
"""The key of the file that holds the settings of a stage."""
CHECKS: tuple[tuple[tuple[str, ...], Check], ...] = (
    (("run",), lambda config: _refused("run", RunDir, config.run)),
    (("space",), lambda config: _refused("space", load_space, config.space)),
    (("task",), lambda config: _refused("task", tasks.get, config.task)),
    (("training",), _training), (("devices",), _devices), (("devices", "space"), _conditions),
    (("search", "task"), _search), (("search", "task", "space"), _applicable), (("pick", "task"), _pick),
    (("task", "devices"), _prices), (("retrain",), _retrain), (("export",), _export))
"""Checks with the keys that they read, in dependency order."""
NEW: tuple[tuple[tuple[str, ...], Check], ...] = (
    (("run",), _folder), (("task", "space"), _family), (("data", "task"), _data))
"""Checks for a new run."""
OLD: tuple[tuple[tuple[str, ...], Check], ...] = (
    (("run", "space", "task", "data", "training"), _same_run), (("task", "space"), _family))
"""Checks for an existing run: its data are in its folder, and the original files may be gone."""
