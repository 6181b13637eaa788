"""What a SPACE_OR_ARCH on the command line means: a space or an architecture, by name or from a file."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from search_spaces import Architecture, InputError, SearchSpace, load_architecture, load_space, shipped_spaces
from search_spaces.errors import did_you_mean
from search_spaces.published import catalogue

DEFAULT_LENGTH = 128
SPACE_ENDINGS = (".yaml", ".yml")
ARCHITECTURE_ENDINGS = (".json",)


@dataclass(frozen=True)
class Named:
    """An architecture, what to call it, and the space it was drawn from where there is one."""

    name: str
    arch: Architecture
    space: SearchSpace | None = None


def known_names() -> list[str]:
    """Every name that needs no file: shipped spaces, then published architectures."""
    return [*shipped_spaces(), *catalogue.names()]


def resolve(text: str) -> SearchSpace | Named:
    """The space or architecture a text names.

    A shipped space, a published architecture, a YAML file (a space), a JSON file (an architecture) or
    a folder that holds `architecture.json`.

    Raises:
        InputError: it is none of these; names the nearest that exist.
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
    if (path / "architecture.json").is_file():
        return Named(text, _architecture(path / "architecture.json"))
    if path.exists():
        raise InputError(text, "is neither a space (.yaml) nor an architecture (.json, or a folder with "
                               "architecture.json)")
    raise InputError(text, _unknown(text))


def pick(found: SearchSpace | Named, sample: int | None, smallest: bool, largest: bool) -> list[Named]:
    """The architectures that options ask of a space: one, or its largest and smallest by default.

    Raises:
        InputError: more than one option is given, or one is given for an architecture.
    """
    asked = [name for name, given in (("--sample", sample is not None), ("--smallest", smallest),
                                      ("--largest", largest)) if given]
    if len(asked) > 1:
        raise InputError("", f"{' and '.join(asked)} exclude each other; give one")
    if isinstance(found, Named):
        if asked:
            raise InputError(found.name, f"is an architecture; {asked[0]} goes with a space")
        return [found]
    picked = []
    if sample is not None:
        picked.append(Named(f"{found.name}, sample {sample}", found.sample(random.Random(sample)), found))  # noqa: S311
    if largest or not asked:
        picked.append(Named(f"{found.name}, largest", found.largest(), found))
    if smallest or not asked:
        picked.append(Named(f"{found.name}, smallest", found.smallest(), found))
    return picked


def sequence_length(found: SearchSpace | Named, seq_len: int | None, target_len: int | None) -> int:
    """The length to count at: the one asked for, or 128, or the context where that is less.

    Raises:
        InputError: a length is below 1 or beyond the context, or a target is given to one that has none.
    """
    model = found.arch if isinstance(found, Named) else found
    for option, length in (("--seq-len", seq_len), ("--target-len", target_len)):
        if length is not None and not 1 <= length <= model.context:
            raise InputError(option, f"{length} is not allowed; allowed: 1 to {model.context}, the context of "
                                     f"{found.name}")
    if target_len is not None and model.family != "seq2seq":
        raise InputError("--target-len", f"goes with the family seq2seq; {found.name} is {model.family}")
    return min(DEFAULT_LENGTH, model.context) if seq_len is None else seq_len


def _architecture(path: Path) -> Architecture:
    if not path.is_file():
        raise InputError(str(path), "is no file" if path.exists() else "does not exist")
    return load_architecture(path)


def _unknown(text: str) -> str:
    others = (f"; shipped spaces: {', '.join(shipped_spaces())}; "
              "nas published lists the published architectures")
    return f"is no space, architecture or file{did_you_mean(text, known_names(), n=3, cutoff=0.5) or others}"
