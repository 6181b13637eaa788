"""What every runtime promises."""

from __future__ import annotations

import ast
import math
import random
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hardware_profiles import protocol, runtimes
from search_spaces import InputError, load_space
from search_spaces.units import SUBLAYERS, Unit, plan
from supernet.build import build_unit, fresh
from supernet.call import Call

LENGTH, SMALL_WIDTH = 8, 32


class SmallModule(nn.Module):
    """Linear maps, a norm, a residual and causal attention, with no block of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.norm = nn.Linear(SMALL_WIDTH, 3 * SMALL_WIDTH), nn.LayerNorm(SMALL_WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.enter(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + y.transpose(1, 2).flatten(2)


class ChainedUnits(nn.Module):
    """Real sub-layers one after the other, with one tensor as input."""

    def __init__(self, units: Iterable[Unit]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(fresh(build_unit(unit)) for unit in units)

    def forward(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x, Call())
        return x


class AiryModule(nn.Module):
    """An operator that only PyTorch has."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.special.airy_ai(x)


def chain() -> tuple[nn.Module, Tensor]:
    """One sub-layer of each kind of lm-small, at the least width."""
    space, rng, units = load_space("lm-small"), random.Random(0), dict[Any, Unit]()
    while len(units) < 4:
        for step in plan(space.sample(rng)):
            unit, dims = step.unit, dict(step.unit.block.dims)
            if unit.role in SUBLAYERS and dict(unit.facts)["width"] == 128 and dims.get("gated") is not False:
                if dims.get("conv") == "dynamic" and int(dims["kernel"]) > 3:
                    continue
                units.setdefault((unit.block.kind, dims.get("conv")), unit)
    return ChainedUnits(units.values()), torch.randn(1, LENGTH, 128)


ALONE = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("search_spaces", "supernet", "hardware_profiles", "nas"):
            raise ImportError(name + " is not on this device")
sys.meta_path.insert(0, Nothing())
import importlib.util
from pathlib import Path
spec = importlib.util.spec_from_file_location("protocol", "measure.py")
protocol = importlib.util.module_from_spec(spec)
spec.loader.exec_module(protocol)
runtime = protocol.load_module(Path("runtime.py"))
described = [{"dtype": "float32", "shape": %s}]
run = runtime.load(sys.argv[1], protocol.random_inputs(described), {"threads": 2, "precision": "fp32"})
assert run() > 0 and runtime.versions()
"""


class RuntimeContract:
    """Set `name` to that of your runtime."""

    name: str

    @property
    def runtime(self) -> Any:
        """The module under test."""
        return runtimes.get(self.name)

    def usable(self, compiles: bool | None = None) -> Any:
        """The same; skips the test where something is missing, or for runtimes that do or do not compile."""
        if compiles is not None and compiles != bool(self.runtime.SUFFIX):
            pytest.skip("only for runtimes that compile" if compiles else "only for runtimes that do not compile")
        if self.runtime.missing():
            pytest.skip(self.runtime.missing())
        return self.runtime

    def examples(self) -> Iterable[tuple[str, nn.Module, Tensor]]:
        """A small module in every precision, and real sub-layers in the first."""
        torch.manual_seed(0)
        for precision in self.runtime.PRECISIONS:
            yield precision, SmallModule().eval(), torch.randn(1, LENGTH, SMALL_WIDTH)
        module, x = chain()
        yield self.runtime.PRECISIONS[0], module.eval(), x

    def test_it_holds_what_the_contract_says(self) -> None:
        runtime = self.runtime
        assert runtime.SUFFIX == "" or runtime.SUFFIX.startswith(".")
        assert runtime.PRECISIONS and set(runtime.PRECISIONS) <= {"fp32", "bf16", "fp16", "int8"}
        assert isinstance(runtime.OPTIONS, tuple) and callable(runtime.load)
        assert hasattr(runtime, "compile") == hasattr(runtime, "call") == bool(runtime.SUFFIX)
        missing = runtime.missing()
        assert missing is None or "\n" not in missing
        if missing is None:
            assert runtime.versions() and all(runtime.versions().values())

    def test_it_times_a_module_as_it_is(self) -> None:
        runtime = self.usable(compiles=False)
        for precision, module, x in self.examples():
            run = runtime.load(module, (x,), {"threads": 1, "precision": precision})
            assert all(math.isfinite(seconds) and seconds > 0 for seconds in (run(), run()))

    def test_it_compiles_what_computes_the_same(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        runtime = self.usable(compiles=True)
        for precision, module, x in self.examples():
            options, path = {"threads": 1, "precision": precision}, tmp_path / f"model{runtime.SUFFIX}"
            capfd.readouterr()
            facts = runtime.compile(module, (x,), str(path), options)
            assert all(math.isfinite(value) for value in facts.values())
            run = runtime.load(str(path), [x.numpy()], options)
            assert all(math.isfinite(seconds) and seconds > 0 for seconds in (run(), run()))
            assert tuple(capfd.readouterr()) == ("", ""), "nothing is printed"
            assert [file.name for file in tmp_path.iterdir()] == [path.name], "one file and nothing beside it"
            with torch.no_grad():
                expected = module(x)
            error = (torch.from_numpy(runtime.call(str(path), options)([x.numpy()])[0]) - expected).abs().max()
            assert error <= (1e-4 if precision == "fp32" else 0.05 * expected.abs().max())

    def test_it_names_the_operator_it_cannot_take(self, tmp_path: Path) -> None:
        runtime, options = self.usable(compiles=True), {"threads": 1, "precision": "fp32"}
        with pytest.raises(InputError, match="special_airy_ai") as caught:
            runtime.compile(AiryModule(), (torch.randn(4),), str(tmp_path / "model"), options)
        assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())

    def test_it_runs_alone_on_a_device(self, tmp_path: Path) -> None:
        runtime, options = self.usable(compiles=True), {"threads": 2, "precision": "fp32"}
        model = f"model{runtime.SUFFIX}"
        shutil.copyfile(protocol.__file__, tmp_path / "measure.py")
        shutil.copyfile(runtime.__file__, tmp_path / "runtime.py")
        runtime.compile(nn.Linear(4, 4).eval(), (torch.randn(2, 4),), str(tmp_path / model), options)
        done = subprocess.run([sys.executable, "-I", "-c", ALONE % "[2, 4]", model], cwd=tmp_path, env={},
                              capture_output=True, text=True, timeout=300, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def test_its_file_needs_little(self) -> None:
        if not self.runtime.SUFFIX:
            pytest.skip("only for runtimes that compile")
        tree = ast.parse(Path(self.runtime.__file__).read_text("utf-8"), feature_version=(3, 9))
        imports = [statement for statement in tree.body if isinstance(statement, (ast.Import, ast.ImportFrom))]
        modules = {alias.name if isinstance(statement, ast.Import) else str(statement.module)
                   for statement in imports for alias in statement.names}
        assert {module.split(".")[0] for module in modules} <= set(sys.stdlib_module_names)
