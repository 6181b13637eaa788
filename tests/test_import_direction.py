"""search_spaces <- {supernet, hardware_profiles} <- nas: no import goes another way."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "search_spaces": set(),
    "supernet": {"search_spaces"},
    "hardware_profiles": {"search_spaces"},
    "nas": {"search_spaces", "supernet", "hardware_profiles"},
}
MAY_IMPORT_RAY = {
    "nas.core.cluster",
    "nas.core.ray_address",
    "nas.core.ray_nodes",
    "nas.stages.search.ray_backend",
    "nas.stages.search.ray_cluster",
    "nas.stages.search.ray_worker",
    "nas.stages.train.on_ray",
}
"""The modules that run work on a cluster."""
MODULES = sorted(path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py"))


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """(line, top-level package) of every import of a module, wherever in it it stands."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are written from the top"
            yield node.lineno, str(node.module).split(".")[0]


def named(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_imports_go_one_way(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    forbidden = set(MAY_IMPORT) - MAY_IMPORT[package] - {package}
    forbidden |= {"tests", "benchmarks"}
    if package == "search_spaces":
        forbidden |= {"torch"}
    if named(path) not in MAY_IMPORT_RAY:
        forbidden |= {"ray"}
    wrong = [f"line {line} imports {name}" for line, name in imported(path) if name in forbidden]
    assert not wrong, f"{named(path)}: {'; '.join(wrong)}"


def test_every_package_was_found() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == set(MAY_IMPORT)


def test_every_folder_of_modules_is_installed() -> None:
    reader = pytest.importorskip("tomllib")  # from Python 3.11
    listed = reader.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["packages"]
    assert set(listed) == {named(path.parent) for path in MODULES if path.name == "__init__.py"}
