"""Resolves SPACE_OR_ARCH of the command line: a space or an architecture, by name or from a file."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from nas.core.names import matching, run_and_key, subnets_in
from search_spaces import Architecture, InputError, SearchSpace, load_architecture, load_space, shipped_spaces
from search_spaces.errors import Command, Option, did_you_mean
from search_spaces.files import ARCHITECTURE
from search_spaces.published import catalogue

DEFAULT_LENGTH = 128
SPACE_ENDINGS = (".yaml", ".yml")
ARCHITECTURE_ENDINGS = (".json",)


@dataclass(frozen=True)
class Named:
    """An architecture, its display name, and the space it was sampled from, if any."""

    name: str
    arch: Architecture
    space: SearchSpace | None = None


def known_names() -> list[str]:
    """Every name that needs no file: shipped spaces, then published architectures."""
    return [*shipped_spaces(), *catalogue.names()]


def resolve(text: str) -> SearchSpace | Named:
    """The space or architecture a text names.

    A shipped space, a published architecture, a YAML file (a space), a JSON file (an architecture), a folder with
    `architecture.json`, or RUN/KEY: a subnet of a run, or an architecture on its front.

    Raises:
        InputError: it is none of these; suggests similar names.
    """
    path = Path(text)
    if text in shipped_spaces():
        return load_space(text)
    if text in catalogue.names():
        return Named(text, catalogue.load_published(text))
    if path.suffix.lower() in SPACE_ENDINGS:
        return load_space(text)
    if path.suffix.lower() in ARCHITECTURE_ENDINGS:
        return Named(text, _architecture(path))
    if (path / ARCHITECTURE).is_file():
        return Named(text, _architecture(path / ARCHITECTURE))
    if path.exists():
        raise InputError(text, "is neither a space (.yaml) nor an architecture (.json, or a folder with "
                               "architecture.json)")
    folder, key = run_and_key(text)
    if folder:
        return Named(text, _of_run(folder, key, text))
    raise InputError(text, _unknown(text))


def pick(named: SearchSpace | Named, sample: int | None, smallest: bool, largest: bool) -> list[Named]:
    """The architectures selected by options: one, or by default the largest and smallest of a space.

    Raises:
        InputError: more than one option is given, or one is given for an architecture.
    """
    given = [str(Option(name)) for name, is_given in (("sample", sample is not None), ("smallest", smallest),
                                                      ("largest", largest)) if is_given]
    if len(given) > 1:
        raise InputError("", f"{' and '.join(given)} cannot be combined; give one")
    if isinstance(named, Named):
        if given:
            raise InputError(named.name, f"is an architecture; {given[0]} requires a space")
        return [named]
    picked = []
    if sample is not None:
        picked.append(Named(f"{named.name}, sample {sample}", named.sample(random.Random(sample)), named))  # noqa: S311
    if largest or not given:
        picked.append(Named(f"{named.name}, largest", named.largest(), named))
    if smallest or not given:
        picked.append(Named(f"{named.name}, smallest", named.smallest(), named))
    return picked


def sequence_length(named: SearchSpace | Named, seq_len: int | None, target_len: int | None) -> int:
    """The sequence length for counting: the given one, or 128, or the context if shorter.

    Raises:
        InputError: a length is below 1 or beyond the context, or a target length is given without a target.
    """
    model = named.arch if isinstance(named, Named) else named
    for option, length in (("seq_len", seq_len), ("target_len", target_len)):
        if length is not None and not 1 <= length <= model.context:
            raise InputError(Option(option), f"{length} is not allowed; allowed: 1 to {model.context}, the context of "
                                     f"{named.name}")
    if target_len is not None and model.family != "seq2seq":
        raise InputError(Option("target_len"), f"requires the family seq2seq; {named.name} is {model.family}")
    return min(DEFAULT_LENGTH, model.context) if seq_len is None else seq_len


def _architecture(path: Path) -> Architecture:
    if not path.is_file():
        raise InputError(str(path), "is not a file" if path.exists() else "does not exist")
    return load_architecture(path)


def _of_run(folder: Path, key: str, text: str) -> Architecture:
    """The subnet of a run, or else the architecture on its front, that a key names. Raises InputError."""
    subnets = matching(key, subnets_in(folder))
    if len(subnets) == 1:
        return _architecture(subnets[0] / ARCHITECTURE)
    front = [arch for arch in _front(folder) if arch.key.startswith(key)] if key else []
    known = [subnet.name for subnet in subnets] or [arch.key[:12] for arch in front]
    if not subnets and len(front) == 1:
        return front[0]
    if known:
        raise InputError(text, f"matches several architectures: {', '.join(known)}; give more characters of the key")
    if not key:
        raise InputError(text, f"is a run; give RUN/KEY: {Command('pareto', folder.name)} lists keys")
    raise InputError(text, f"no subnet of {folder} and no architecture on its front has a key that starts with "
                           f"{key!r}; {Command('pareto', folder.name)} lists keys")


def _front(folder: Path) -> list[Architecture]:
    """The architectures on the front of a run; none where it was not searched."""
    from nas.core.fronts import read_front
    from nas.core.run_dir import RunDir

    if not (folder / "pareto.json").is_file():
        return []
    return [entry.arch for entry in read_front(RunDir.open(str(folder.absolute())))]


def _unknown(text: str) -> str:
    if run_and_key(f"{text}/")[0]:
        return f"is a run; give RUN/KEY: {Command('pareto', text)} lists keys"
    others = (f"; shipped spaces: {', '.join(shipped_spaces())}; "
              f"{Command('published')} lists the published architectures")
    return f"is not a space, architecture or file{did_you_mean(text, known_names(), n=3, cutoff=0.5) or others}"
