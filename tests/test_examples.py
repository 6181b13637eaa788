"""The examples run from top to bottom, and show what they promise."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py") if not path.name.startswith("test_"))


def front_of(out):
    """The losses of the front that an example prints."""
    return [float(loss) for loss in re.findall(r"^\S+ loss ([0-9.]+) ", out, re.MULTILINE)]


def language_model(folder, out):
    assert front_of(out)
    (retrained,) = (folder / "runs" / "little" / "subnets").glob("*-retrained")
    assert (retrained / "model.safetensors").is_file()
    assert (folder / "runs" / "profiles" / "here" / "table.csv").is_file()
    assert float(re.search(r"predicted ([0-9.]+) ms", out)[1]) > 0
    assert "The function returns" in out


def classifier(folder, out):
    assert front_of(out)
    (model,) = (folder / "runs" / "readers" / "subnets").glob("*/exports/onnx/model.onnx")
    assert str(model.relative_to(folder)) in out
    assert float(re.search(r"logits differ by (\S+)", out)[1]) < 1e-4


def translator(folder, out):
    assert front_of(out)
    assert list((folder / "runs" / "speakers" / "subnets").glob("*-retrained/model.safetensors"))
    assert "dreizehn -> " in out


def own_data(folder, out):
    for run in ("text", "table", "pairs"):
        assert re.search(rf"^{run}: [1-9]\d* on the front", out, re.MULTILINE)
        assert list((folder / "runs" / run / "subnets").glob("*/model.safetensors"))
    assert "stars: ['5', '1']" in out


def own_block(folder, out):
    assert re.search(r"^loss [0-9.]+ with [0-9,]+ parameters: .*\brecent\b", out, re.MULTILINE)
    assert "supernet and extracted model give the same outputs" in out
    assert list((folder / "runs" / "mine" / "subnets").glob("*/model.safetensors"))


def own_runtime(folder, out):
    assert "compiled and plain model give the same outputs" in out
    smallest, largest = (float(re.search(rf"{name}: ([0-9.]+) ms", out)[1]) for name in ("smallest", "largest"))
    assert 0 < smallest < largest
    assert list((folder / "runs" / "profiles" / "graphs" / "work" / "models").glob("*.pt2"))


PROMISES = {f"{promise.__name__}.py": promise
            for promise in (language_model, classifier, translator, own_data, own_block, own_runtime)}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_keeps_its_promises(name, tmp_path):
    done = subprocess.run([sys.executable, ROOT / "examples" / name], capture_output=True, text=True, timeout=300,
                          cwd=tmp_path, env={**os.environ, "FOLDER": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    PROMISES[name](tmp_path, done.stdout)


def test_every_example_is_listed():
    listed = (ROOT / "examples" / "README.md").read_text("utf-8")
    assert all(f"({name})" in listed for name in EXAMPLES)


def test_a_package_inherits_a_suite(tmp_path):
    """A user's test file, run as a user runs it: beside the block and without the tests of this repository."""
    for name in ("own_block.py", "test_own_block.py"):
        (tmp_path / name).write_text((ROOT / "examples" / name).read_text("utf-8"), "utf-8")
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_own_block.py"],
                          cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout


def test_importing_the_suites_is_cheap():
    script = "import sys, nas.testing; assert not {'pytest', 'torch', 'optuna'} & set(sys.modules), sys.modules.keys()"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)
