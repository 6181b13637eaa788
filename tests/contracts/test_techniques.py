"""What every technique declares, and techniques and formats from outside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nas.stages.compress.techniques import make_technique, techniques
from nas.stages.export import formats
from nas.testing import TechniqueContract
from search_spaces import InputError, plugins
from tests.nas.runs import nas

TECHNIQUE = """
from typing import ClassVar

from pydantic import Field

from nas.stages.compress.technique import Technique


class Halve(Technique):
    name: ClassVar[str] = "halve"
    help: ClassVar[str] = "Keep every other weight"
    options: ClassVar[tuple[str, ...]] = ("odd_ones",)
    odd_ones: bool = Field(False, description="keep the others")
    strength: float = Field(1.0, gt=0, description="how much")

    @property
    def suffix(self):
        return "halved"

    def apply(self, context):
        return context.model
"""


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for files of the user's; they are forgotten afterwards."""
    monkeypatch.setenv(plugins.VARIABLE, "")
    yield tmp_path
    monkeypatch.setenv(plugins.VARIABLE, "")
    for cache in plugins._caches:
        cache.cache_clear()


class TestCacheEmbedding(TechniqueContract):
    name = "cache-embedding"


class TestInt4(TechniqueContract):
    name = "int4"


class TestInt8(TechniqueContract):
    name = "int8"


class TestProductQuantise(TechniqueContract):
    name, value, wrong = "product-quantise", 4, 0


class TestPrune(TechniqueContract):
    name, value, wrong = "prune", 0.5, 1.5


class TestPruneHeads(TechniqueContract):
    name, value, wrong = "prune-heads", 0.5, 1.5


def test_every_technique_is_tried_here() -> None:
    tried = {each.name for each in TechniqueContract.__subclasses__() if each.__module__ == __name__}
    assert tried == set(techniques())


def test_a_technique_of_the_user_s_has_options_on_the_command_line(outside: Path, capsys: Any) -> None:
    path = outside / "halving_weights.py"
    path.write_text(TECHNIQUE, "utf-8")
    plugins.add(path)
    technique = make_technique({"halve": True, "odd_ones": True, "strength": 2.0})
    assert technique.suffix == "halved" and technique.model_dump() == {"odd_ones": True, "strength": 2.0}
    for options, says in (({"halve": True, "group": 2}, "group: belongs to int4, not to halve"),
                          ({"halve": True, "strengt": 2}, "strengt: is not an option of halve; did you mean strength"),
                          ({"halve": True, "strength": 0}, "strength: 0 is not allowed")):
        with pytest.raises(InputError, match=says):
            make_technique(options)


def test_a_file_declares_one_technique_of_its_own_name(outside: Path) -> None:
    twice = TECHNIQUE + TECHNIQUE[TECHNIQUE.index("class"):].replace("Halve", "More")
    taken = TECHNIQUE.replace('"halve"', '"int8"')
    for file, text, says in (("two_techniques", twice, "declares 2 techniques"),
                             ("same_name", taken, "a technique int8 already exists")):
        path = outside / f"{file}.py"
        path.write_text(text, "utf-8")
        plugins.add(path)
        with pytest.raises(InputError, match=says):
            techniques()
        plugins.os.environ[plugins.VARIABLE] = ""
        techniques.cache_clear()  # type: ignore[attr-defined]


def test_a_format_of_the_user_s_is_found_and_checked(outside: Path) -> None:
    path = outside / "paper_tape.py"
    path.write_text("DYNAMIC, INT8, HELP = True, False, 'holes'\nwrite = load = missing = lambda *_: None\n", "utf-8")
    plugins.add(path)
    assert "paper-tape" in formats.names() and formats.get("paper-tape").HELP == "holes"
    lacking = outside / "lacking_tape.py"
    lacking.write_text("DYNAMIC = True\n", "utf-8")
    plugins.add(lacking)
    with pytest.raises(InputError, match="INT8: is missing; every format needs it"):
        formats.names()


def test_the_help_has_every_technique_and_format(capsys: Any) -> None:
    code, out, _ = nas(capsys, "compress", "--help")
    assert code == 0 and all(f"--{name}" in out for name in techniques())
    assert all(f"--{option}" in out for each in techniques().values() for option in each.options)
    code, out, _ = nas(capsys, "export", "--help")
    assert code == 0 and all(name in out for name in formats.names())
