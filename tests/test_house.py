"""The rules of the house (docs/design.md, Packages): imports, class names, stages of one shape, flags only in `cli`."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import pytest
import typer

from nas.cli import app

ROOT = Path(__file__).parent.parent
PACKAGES = ("search_spaces", "supernet", "hardware_profiles", "nas")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
COMMAND = re.compile(r"(?<![\w-])nas ([a-z][a-z-]*)")
FREE_TEXTS = ("help", "description")
"""Arguments that are read in help and reference pages, and name commands without arguments."""
OTHER_PROGRAMS = ("hardware_profiles.protocol", "hardware_profiles.transports")
"""What starts programs that have flags of their own: the process that measures, ssh and adb."""
NO_NOUNS = {"told", "asked", "found", "made", "each", "says", "parted", "anew"}
"""Names that do not say what a value is: result, request, trials, candidate, message, split."""
STORED_NAMES = {"nas.core.subnet made"}
"""Names of fields that are on disk."""
OTHER_FLAGS = {"--head", "--logdir"}
"""Of `ray start` and `tensorboard`, which sentences name."""
MAY_IMPORT = {
    "core": ("tasks",), "tasks": (), "importers": (), "stages": ("core", "tasks", "importers"), "terminal": ("core",),
    "pipeline": ("core", "tasks", "stages"), "api": ("core", "tasks", "stages", "terminal"),
}
"""Of every folder of `nas`, the others that it may import; nas/README.md has the same table."""
PRIVATE = {
    "torch.utils._python_dispatch.TorchDispatchMode":
        "PyTorch documents the class by this path (notes on extending), and has no public one",
    "torch.onnx._internal.exporter._registration.ONNXRegistry":
        "cached, else every export builds it again (0.9 of 1.6 s); where it is missing, exports are only slower",
}
"""Private names of libraries without a public way, and why they are used."""


@lru_cache
def modules() -> dict[str, ast.Module]:
    """The product code by module name."""
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    names = (path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for path in paths)
    return {name.removesuffix(".__init__"): ast.parse(path.read_text("utf-8")) for name, path in zip(names, paths)}


def imported(tree: ast.Module) -> Iterator[str]:
    """Dotted names of what a module imports, wherever it does: `a.b.c` for `from a.b import c`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def is_view(name: str) -> bool:
    """Whether a module is for a person: it may know a console and a flag."""
    return name.endswith(".view") or within(name, "nas.cli", "nas.terminal", "nas.api")


def class_names() -> Iterator[str]:
    """Classes of one name in several modules."""
    owners = defaultdict(set)
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                owners[node.name].add(name)
    yield from (f"{owner} {cls}" for cls, several in owners.items() if len(several) > 1 for owner in several)


def core_imports() -> Iterator[str]:
    """`nas.core` imports nothing that is built on it."""
    for name, tree in modules().items():
        if within(name, "nas.core"):
            yield from (f"{name} {target}" for target in imported(tree)
                        if within(target, "nas.stages", "nas.cli", "nas.pipeline", "nas.terminal", "nas.api"))


def stage_imports() -> Iterator[str]:
    """A stage imports no other stage, and nothing that puts stages together."""
    for name, tree in modules().items():
        if within(name, "nas.stages") and name.count(".") > 1:
            own = ".".join(name.split(".")[:3])
            yield from (f"{name} {target}" for target in imported(tree)
                        if within(target, "nas.stages") and not within(target, own)
                        or within(target, "nas.cli", "nas.pipeline", "nas.api"))


def nas_imports() -> Iterator[str]:
    """Folders of `nas` import what the table in nas/README.md allows; views may also import `nas.terminal`."""
    for name, tree in modules().items():
        folder = name.split(".")[1] if name.count(".") else ""
        allowed = {folder, *MAY_IMPORT.get(folder, ()), *(["terminal"] if name.endswith(".view") else [])}
        if folder in MAY_IMPORT:
            yield from (f"{name} {target}" for target in imported(tree)
                        if within(target, "nas") and target.count(".") and target.split(".")[1] not in allowed)


def rich_imports() -> Iterator[str]:
    """Only what a person sees is made of rich."""
    for name, tree in modules().items():
        if not is_view(name):
            yield from (f"{name} {target}" for target in imported(tree)
                        if within(target, "rich", "typer", "nas.terminal") or "view" in target.split("."))


def private_imports() -> Iterator[str]:
    """A name that begins with _ is imported within its own package only, and never from a library."""
    for name, tree in modules().items():
        for target in imported(tree):
            owner = re.match(r"([\w.]+?)\._(?!_)", target)
            if owner and target not in PRIVATE and not (within(target, *PACKAGES) and within(name, owner[1])):
                yield f"{name} {target}"


def flags() -> Iterator[str]:
    """A flag of the command line is named in no string but those of views; docstrings are free."""
    for name, tree in modules().items():
        if not is_view(name) and not within(name, *OTHER_PROGRAMS):
            found = {flag for text in _strings(tree) for flag in FLAG.findall(text)}
            yield from (f"{name} {flag}" for flag in found - OTHER_FLAGS)


def raw_commands() -> Iterator[str]:
    """A command in a message is a `Command`, which quotes names with spaces; help and docstrings are free."""
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name, tree in modules().items():
        free = {id(part) for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg in FREE_TEXTS
                for part in ast.walk(node.value)}
        yield from (f"{name}: nas {command}" for text in _strings(tree, free) for command in COMMAND.findall(text)
                    if command in known)


def names() -> Iterator[str]:
    """Variables, arguments, functions and classes are named by the noun that they are."""
    for name, tree in modules().items():
        for node in ast.walk(tree):
            declared = (node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
                        else node.arg if isinstance(node, ast.arg)
                        else node.name if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else "")
            if declared.lower() in NO_NOUNS and f"{name} {declared}" not in STORED_NAMES:
                yield f"{name}, line {node.lineno}: {declared}"


def _strings(tree: ast.Module, free: Iterable[int] = ()) -> Iterator[str]:
    free = {*free, *(id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in free:
            yield node.value


RULES: dict[str, Callable[[], Iterable[str]]] = {
    rule.__name__: rule for rule in (class_names, core_imports, stage_imports, nas_imports, rich_imports,
                                 private_imports, flags, raw_commands, names)}


@pytest.mark.parametrize("rule", RULES)
def test_nothing_breaks_a_rule(rule: str) -> None:
    found = sorted(set(RULES[rule]()))
    assert not found, f"{RULES[rule].__doc__}\n" + "\n".join(found)


def test_every_stage_has_the_same_shape() -> None:
    stages = {name.split(".")[2] for name in modules() if within(name, "nas.stages") and name.count(".") > 1}
    lacking = {f"{stage}/{part}.py" for stage in stages for part in ("request", "run", "view")
               if f"nas.stages.{stage}.{part}" not in modules()}
    assert not lacking


def test_private_names_are_still_used() -> None:
    used = {target for tree in modules().values() for target in imported(tree)}
    assert set(PRIVATE) <= used
