"""What every runtime promises, run over every file of the folder."""

import ast
import math
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from hardware_profiles import protocol as measure
from hardware_profiles import runtimes
from search_spaces import InputError, load_space
from search_spaces.units import SUBLAYERS, plan
from supernet.build import build_unit, fresh
from supernet.call import Call

NAMES = runtimes.names()
COMPILED = [name for name in NAMES if runtimes.get(name).SUFFIX]
LENGTH, SMALL_WIDTH = 8, 32


class Small(nn.Module):
    """Linear maps, a norm, a residual and causal attention, with no block of ours."""

    def __init__(self):
        super().__init__()
        self.enter, self.norm = nn.Linear(SMALL_WIDTH, 3 * SMALL_WIDTH), nn.LayerNorm(SMALL_WIDTH)

    def forward(self, x):
        q, k, v = (each.unflatten(-1, (2, -1)).transpose(1, 2) for each in self.enter(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + y.transpose(1, 2).flatten(2)


class Chain(nn.Module):
    """Real sub-layers one after the other, with one tensor as input."""

    def __init__(self, units):
        super().__init__()
        self.parts = nn.ModuleList(fresh(build_unit(unit)) for unit in units)

    def forward(self, x):
        for part in self.parts:
            x = part(x, Call())
        return x


class Airy(nn.Module):
    """An operator that only PyTorch has."""

    def forward(self, x):
        return torch.special.airy_ai(x)


def chain():
    """One sub-layer of each kind of lm-small, at the least width."""
    space, rng, found = load_space("lm-small"), random.Random(0), {}
    while len(found) < 4:
        for step in plan(space.sample(rng)):
            unit, dims = step.unit, dict(step.unit.block.dims)
            if unit.role in SUBLAYERS and dict(unit.facts)["width"] == 128 and dims.get("gated") is not False:
                if dims.get("conv") == "dynamic" and dims["kernel"] > 3:
                    continue
                found.setdefault((unit.block.kind, dims.get("conv")), unit)
    return Chain(found.values()), torch.randn(1, LENGTH, 128)


def example(name, precision):
    """The small module, and for the first precision the real sub-layers too."""
    torch.manual_seed(0)
    pairs = [(Small(), torch.randn(1, LENGTH, SMALL_WIDTH))]
    return [(module.eval(), x) for module, x in
            (*pairs, *([chain()] if precision == runtimes.get(name).PRECISIONS[0] else []))]


def usable(name):
    runtime = runtimes.get(name)
    if runtime.missing():
        pytest.skip(runtime.missing())
    return runtime


def every_precision(names):
    return [pytest.param(name, precision, id=f"{name}-{precision}")
            for name in names for precision in runtimes.get(name).PRECISIONS]


@pytest.mark.parametrize("name", NAMES)
def test_holds_what_the_contract_says(name):
    runtime = runtimes.get(name)
    assert runtime.SUFFIX == "" or runtime.SUFFIX.startswith(".")
    assert runtime.PRECISIONS and set(runtime.PRECISIONS) <= {"fp32", "bf16", "fp16", "int8"}
    assert isinstance(runtime.OPTIONS, tuple)
    assert callable(runtime.load)
    assert hasattr(runtime, "compile") == hasattr(runtime, "call") == bool(runtime.SUFFIX)
    missing = runtime.missing()
    assert missing is None or "\n" not in missing
    if missing is None:
        assert runtime.versions() and all(runtime.versions().values())


@pytest.mark.parametrize(("name", "precision"), every_precision(name for name in NAMES if name not in COMPILED))
def test_times_a_module_as_it_is(name, precision):
    runtime = usable(name)
    for module, x in example(name, precision):
        run = runtime.load(module, (x,), {"threads": 1, "precision": precision})
        assert all(math.isfinite(seconds) and seconds > 0 for seconds in (run(), run()))


@pytest.mark.parametrize(("name", "precision"), every_precision(COMPILED))
def test_compiles_what_computes_the_same(name, precision, tmp_path, capfd):
    runtime, options = usable(name), {"threads": 1, "precision": precision}
    for module, x in example(name, precision):
        path = tmp_path / f"model{runtime.SUFFIX}"
        capfd.readouterr()
        facts = runtime.compile(module, (x,), str(path), options)
        assert all(math.isfinite(value) for value in facts.values())
        run = runtime.load(str(path), [x.numpy()], options)
        assert all(math.isfinite(seconds) and seconds > 0 for seconds in (run(), run()))
        assert capfd.readouterr() == ("", ""), "nothing is printed"
        assert [each.name for each in tmp_path.iterdir()] == [path.name], "one file and nothing beside it"
        with torch.no_grad():
            expected = module(x)
        error = (torch.from_numpy(runtime.call(str(path), options)([x.numpy()])[0]) - expected).abs().max()
        assert error <= (1e-4 if precision == "fp32" else 0.05 * expected.abs().max())


@pytest.mark.parametrize("name", COMPILED)
def test_names_the_operator_it_cannot_take(name, tmp_path):
    runtime = usable(name)
    with pytest.raises(InputError, match="special_airy_ai") as caught:
        runtime.compile(Airy(), (torch.randn(4),), str(tmp_path / "model"), {"threads": 1, "precision": "fp32"})
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())


ALONE = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("search_spaces", "supernet", "hardware_profiles", "nas"):
            raise ImportError(name + " is not on this device")
sys.meta_path.insert(0, Nothing())
import importlib.util
from pathlib import Path
spec = importlib.util.spec_from_file_location("measure", "measure.py")
measure = importlib.util.module_from_spec(spec)
spec.loader.exec_module(measure)
runtime = measure.load_module(Path("runtime.py"))
described = [{"dtype": "float32", "shape": %s}]
run = runtime.load(sys.argv[1], measure.random_inputs(described), {"threads": 2, "precision": "fp32"})
assert run() > 0 and runtime.versions()
"""


@pytest.mark.parametrize("name", COMPILED)
def test_runs_alone_on_a_device(name, tmp_path):
    runtime, model = usable(name), "model" + runtimes.get(name).SUFFIX
    shutil.copyfile(measure.__file__, tmp_path / "measure.py")
    shutil.copyfile(runtime.__file__, tmp_path / "runtime.py")
    options = {"threads": 2, "precision": "fp32"}
    runtime.compile(nn.Linear(4, 4).eval(), (torch.randn(2, 4),), str(tmp_path / model), options)
    done = subprocess.run([sys.executable, "-I", "-c", ALONE % "[2, 4]", model], cwd=tmp_path, env={},
                          capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", COMPILED)
def test_a_shipped_file_needs_little(name):
    tree = ast.parse(Path(runtimes.get(name).__file__).read_text("utf-8"), feature_version=(3, 9))
    imports = [each for each in tree.body if isinstance(each, (ast.Import, ast.ImportFrom))]
    modules = {alias.name if isinstance(each, ast.Import) else str(each.module)
               for each in imports for alias in each.names}
    assert {each.split(".")[0] for each in modules} <= sys.stdlib_module_names
