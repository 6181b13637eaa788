"""What the documents show is true: their commands run and print what is shown, their Python runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from search_spaces import registry as kinds
from search_spaces.files.loader import space_from_text
from supernet import Supernet, extract

ROOT = Path(__file__).parent.parent
PACKAGES = ("search_spaces", "supernet", "hardware_profiles", "nas")
DOCUMENTS = sorted(path.relative_to(ROOT).as_posix() for path in (
    *ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "examples" / "README.md",
    ROOT / "benchmarks" / "results" / "README.md",
    *(path for package in PACKAGES for path in ROOT.glob(f"{package}/**/README.md"))))


def blocks(document, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / document).read_text("utf-8"), re.MULTILINE | re.DOTALL)


def commands(document):
    """(command, lines shown below it) of every console block."""
    found = []
    for line in "\n".join(blocks(document, "console")).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.strip() not in ("", "..."):
            found[-1][1].append(line)
    return found


def squeezed(line):
    return " ".join(line.split())


def test_the_installed_command_runs():
    done = subprocess.run([Path(sys.executable).parent / "nas", "spaces"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "lm-tiny" in done.stdout


@pytest.mark.parametrize("document", ["README.md", "docs/design.md"])
def test_python_runs(document):
    shown = blocks(document, "python")
    assert shown
    for code in shown:
        exec(compile(code, document, "exec"), {"__name__": document})


def test_the_example_block_is_complete(monkeypatch):
    (code,) = blocks("CONTRIBUTING.md", "python")
    names = {"__name__": "example"}
    exec(compile(code, "CONTRIBUTING.md", "exec"), names)
    monkeypatch.setitem(kinds.registry(), "shift", names["KIND"])
    text = (ROOT / "search_spaces" / "lm-tiny.yaml").read_text("utf-8")
    text = re.sub(r"^( +)attention: .*$", r"\1shift: {inner: ['1x', '2x']}", text, count=1, flags=re.MULTILINE)
    space = space_from_text(text, "with-shift.yaml")
    net, tokens = Supernet(space, seed=0).eval(), torch.randint(space.vocab_size, (2, 9))
    for arch in (space.largest(), space.decode(space.encode(space.largest()) | {"width": 48, "decoder.depth": 3})):
        assert {layer.mixer.kind for layer in arch.decoder} == {"shift"}
        model = extract(net, arch)
        assert torch.equal(net(arch, tokens), model(tokens))
        first, cache = model.decode(tokens[:, :4], model.start(2))
        pieces = torch.cat([first, model.decode(tokens[:, 4:], cache)[0]], dim=1)
        assert torch.allclose(model(tokens), pieces, atol=1e-5)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    links = re.findall(r"\]\(([^)#]+)", (ROOT / document).read_text("utf-8"))
    local = [link for link in links if not link.startswith("http")]
    assert not [link for link in local if not (ROOT / document).parent.joinpath(link).exists()]


def test_every_package_has_a_readme():
    folders = {path.parent for package in PACKAGES for path in ROOT.glob(f"{package}/**/__init__.py")}
    assert not [folder for folder in folders if not (folder / "README.md").exists()]
