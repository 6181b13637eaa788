"""Start a run from a trained model: its weights, ordered by importance, fill the store, and it teaches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tokenizers import Tokenizer

from nas.core.config import FINE_TUNING
from nas.core.evaluation import load_supernet, place, prepare
from nas.core.heads import with_head
from nas.core.names import CONFIG
from nas.core.progress import StageProgress
from nas.core.run_dir import RunDir, folder_of_run, write_json
from nas.core.subnet import Subnet
from nas.importers import usual_dropout
from nas.tasks.base import Prepared
from search_spaces import Architecture, InputError, SearchSpace
from search_spaces.errors import Command, Option
from search_spaces.files.reading import read_table
from search_spaces.files.writing import whole
from supernet import Supernet, Transformer, extract
from supernet.filling import fill
from supernet.pretrained import load_model, save_model
from supernet.train.opening import importance_batches
from supernet.train.ordering import order
from supernet.train.recipe import Recipe

ORDERING = "ordering.json"


@dataclass(frozen=True)
class StartModel:
    """A trained model, the name it was given by, and its tokenizer."""

    name: str
    model: Transformer
    tokenizer: Tokenizer


def prepare_init(run: RunDir, prepared: Prepared, progress: StageProgress) -> None:
    """Write the model that a run starts from, ordered by importance, into the run's folder, unless it is there.

    From then on the run no longer needs the original, and every start sees the same weights.

    Raises:
        InputError: there is no such model, or it does not fit the run's space or data.
    """
    config = run.config()
    if config.init is None or run.init_path.is_dir():
        return
    trained, fresh = with_head_of(open_trained(config.init), prepared.space, config.training.seed)
    note = check_fits(trained, prepared)
    with progress.breakable():
        _write_ordered(run.init_path, trained.model, fresh, prepared, config.training)
    if fresh:
        note += ("; its head is new, so it is not used as teacher; to use it as one, fine-tune it with "
                 f"{Command('retrain', config.init)} first")
    progress.note(f"initialised from {config.init}, ordered by importance{note}")


def with_head_of(trained: StartModel, space: SearchSpace, seed: int) -> tuple[StartModel, tuple[str, ...]]:
    """A model with the head of a space's largest architecture, unless its own is in the space, and the new tensors."""
    arch, largest = trained.model.arch, space.largest()
    if arch.family != largest.family or arch in space:
        return trained, ()
    wanted = replace(arch, head=largest.head, n_classes=largest.n_classes)
    if wanted not in space:
        return trained, ()
    model, fresh = with_head(trained.model, wanted, seed)
    return replace(trained, model=model), fresh


def _write_ordered(path: Path, model: Transformer, fresh: tuple[str, ...], prepared: Prepared, recipe: Recipe) -> None:
    net = place(Supernet(prepared.space, seed=recipe.seed), recipe).eval()
    fill(net, model)
    device = next(net.parameters()).device
    report = order(net, importance_batches(prepared.train, recipe, device), recipe.order_score, arch=model.arch)
    with whole(path) as folder:
        folder.mkdir()
        save_model(extract(net, model.arch), folder)
        write_json(folder / ORDERING, {**report.to_dict(), "new_tensors": list(fresh)})


def load_init(run: RunDir, recipe: Recipe) -> Transformer | None:
    """The model that a run starts from, on the recipe's device; None where it starts from fresh weights."""
    if run.config().init is None:
        return None
    return place(load_model(run.init_path), recipe)


def teaches(run: RunDir) -> bool:
    """Whether the model that a run starts from can teach: not with a new head."""
    return not read_table(run.init_path / ORDERING, "start a new run").get("new_tensors")


def open_trained(name: str) -> StartModel:
    """A subnet, or the largest architecture of a finished run. Raises InputError."""
    if (folder_of_run(name) / CONFIG).is_file():
        run = RunDir.open(name)
        prepared = prepare(run)
        model = extract(load_supernet(run, prepared.space), prepared.space.largest())
        return StartModel(name, model.cpu(), prepared.tokenizer)
    subnet = Subnet.open(name)
    return StartModel(name, subnet.model(), subnet.tokenizer())


def task_and_data(name: str) -> tuple[str, dict[str, str]]:
    """What a model was trained for and on, with its tokenizer if that is a published one. Raises InputError."""
    if (folder_of_run(name) / CONFIG).is_file():
        config = RunDir.open(name).config()
        return config.task, dict(config.data)
    facts = Subnet.open(name).facts
    return facts.task, {**({"tokenizer": name} if facts.brings_tokenizer else {}), **facts.data}


def fine_tuning_recipe(name: str) -> Recipe:
    """The default training settings of a supernet that starts from a model. Raises InputError."""
    if (folder_of_run(name) / CONFIG).is_file():
        dropout = RunDir.open(name).config().training.dropout
    else:
        dropout = usual_dropout(Subnet.open(name).facts.model_type)
    return FINE_TUNING.model_copy(update={"dropout": dropout})


def check_fits(trained: StartModel, prepared: Prepared) -> str:
    """A note about a model that is in the space but not its largest. Raises InputError if it is not in the space."""
    arch, space = trained.model.arch, prepared.space
    where = f"{Option('init')} {trained.name}"
    if arch.vocab_size != space.vocab_size:
        raise InputError(where, f"its vocabulary has {arch.vocab_size:,} tokens, that of the data {space.vocab_size:,}"
                                "; use the data and the vocabulary it was trained with")
    if trained.tokenizer.to_str() != prepared.tokenizer.to_str():
        raise InputError(where, "its tokenizer differs from that of the data, so token ids do not match; use the data "
                                "and "
                                "the vocabulary it was trained with")
    if arch == space.largest():
        return ""
    try:
        space.encode(arch)
    except InputError:
        raise InputError(where, f"is not in the space {space.name}: {difference(arch, space)}") from None
    return (f"; it is smaller than the space ({difference(arch, space)}), and the missing weights are initialised "
            "randomly")


def difference(arch: Architecture, space: SearchSpace) -> str:
    """The first dim in which an architecture differs from the largest of a space."""
    mine, largest = _flat(arch.to_dict()), _flat(space.largest().to_dict())
    for key in dict.fromkeys((*largest, *mine)):
        if mine.get(key) != largest.get(key):
            return f"{key} is {_shown(mine.get(key))}, but in the space's largest {_shown(largest.get(key))}"
    return "it has the same dims in other slots"


def _flat(value: object, key: str = "") -> dict[str, object]:
    """Nested tables and lists as one table of dotted keys; a list's length first."""
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = [("layers", len(value)), *((str(i), item) for i, item in enumerate(value))]
    else:
        return {key: value}
    flat: dict[str, object] = {}
    for name, inner in pairs:
        flat |= _flat(inner, f"{key}.{name}" if key else name)
    return flat


def _shown(value: object) -> str:
    return "absent" if value is None else str(value)
