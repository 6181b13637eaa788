"""Code taken out of modules into one file: all of it that is needed, nothing else, or a reason."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from nas.stages.export.bundle import Bundle, _source
from search_spaces import InputError
from search_spaces import registry as kinds

OURS = {"supernet", "search_spaces"}


@pytest.mark.parametrize("kind", sorted(kinds.registry()))
def test_every_block_runs_without_its_module(kind: str) -> None:
    module = kinds.get(kind).module
    bundle = Bundle(OURS)
    bundle.add(module.__module__, module.__qualname__)
    text = bundle.text("# here", "")
    names = {each.name.split(".")[0] for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import)
             for each in node.names}
    names |= {str(node.module).split(".")[0] for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)}
    assert names <= {"torch", *sys.stdlib_module_names} and "def layouts" not in text
    space: dict = {"__name__": __name__}
    exec(compile(text, "bundled", "exec"), space)
    assert space[module.__qualname__].__doc__ == module.__doc__


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package whose modules a test writes."""
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == "bundled_package"]:  # of another test
        del sys.modules[name]
    (tmp_path / "bundled_package").mkdir()
    (tmp_path / "bundled_package" / "__init__.py").touch()
    _source.cache_clear()
    return tmp_path / "bundled_package"


def bundled(package: Path, name: str, **modules: str) -> str:
    for module, text in modules.items():
        (package / f"{module}.py").write_text(text)
    bundle = Bundle({package.name})
    bundle.add(f"{package.name}.{next(iter(modules))}", name)
    return bundle.text("# opening", "# closing")


def test_each_stands_after_what_it_needs(package: Path) -> None:
    text = bundled(package, "Last", one='''
import math as m
from bundled_package.three import THREE
from bundled_package.two import base, unused
def even(n): return n == 0 or odd(n - 1)
def odd(n): return n != 0 and even(n - 1)
@base
class Last:
    """Says."""

    def layouts(self):
        return unused

    def __init__(self): self.is_even = even(4) and m.pi > THREE
''', two='''
from bundled_package.three import THREE
def base(cls, n=THREE): return cls
def unused(): pass
''', three='''
THREE = (
    3)
"""More than two."""
FOUR = 4
''')
    space: dict = {"__name__": __name__}
    exec(text, space)
    assert space["Last"]().is_even and "unused" not in text and "FOUR" not in text and '"""More than two."""' in text
    assert text.startswith("# opening") and text.endswith("# closing\n") and "import math as m" in text


@pytest.mark.parametrize(("modules", "says"), [
    ({"one": "from bundled_package import two\ndef f(): return two.g()", "two": "def g(): pass"},
     "two cannot be put into one file: import the names it needs from bundled_package"),
    ({"one": "from bundled_package.two import g as h\ndef f(): return h()", "two": "def g(): pass"},
     "h cannot be put into one file"),
    ({"one": "from bundled_package.two import g\ndef f(): return g() + help()\ndef help(): pass",
      "two": "def g(): return help()\ndef help(): pass"}, "help is a different object in bundled_package.two"),
    ({"one": "def g(): pass"}, "f cannot be put into one file: it is not defined at the top level of its module"),
])
def test_what_cannot_be_taken_out(package: Path, modules: dict[str, str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        bundled(package, "f", **modules)
