"""What every export format promises."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

from nas.core.progress import StageProgress
from nas.core.subnet import Subnet
from nas.stages.export import formats
from nas.stages.export.job import ExportJob
from nas.stages.export.request import ExportRequest
from nas.stages.export.run import RECORD, run
from nas.testing.parity import randomised
from nas.testing.small_subnets import SPACES, ship, space
from supernet import Transformer, extract

FAMILIES = tuple(SPACES)


def padded(job: ExportJob, real: int) -> tuple[torch.Tensor, ...]:
    """One sequence of the whole length, with padding after `real` tokens if the inputs have a mask."""
    tokens = torch.arange(job.length)[None] % job.arch.vocab_size
    given = {"attention_mask": (tokens < real).long(), "token_type_ids": torch.zeros_like(tokens)}
    return tuple(given.get(name, tokens).contiguous() for name in job.names)


class FormatContract:
    """Set `name` to that of your format."""

    name: str
    n_subnets = 2
    """Architectures of each family that are exported."""

    @property
    def format(self) -> Any:
        """The module of the format under test."""
        return formats.get(self.name)

    def usable(self) -> Any:
        """The same; skips the test where something is missing."""
        if self.format.missing():
            pytest.skip(self.format.missing())
        return self.format

    def test_it_holds_what_the_contract_says(self) -> None:
        module = self.format
        assert module.__doc__ and module.HELP and isinstance(module.DYNAMIC, bool) and isinstance(module.INT8, bool)
        assert callable(module.write) and callable(module.load)
        missing = module.missing()
        assert missing is None or "\n" not in missing

    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """Where the exports of all families are."""
        return tmp_path_factory.mktemp("formats")

    def exported(self, family: str, folder: Path) -> list[Subnet]:
        """Random subnets with their exports; tests of a class share them."""
        paths = [folder / f"{family}-{i}" for i in range(self.n_subnets)]
        if not paths[0].exists():
            net, rng = randomised(space(family)), random.Random(f"formats {family}")
            for path in paths:
                ship(extract(net, net.space.sample(rng)), path)
                done = run(ExportRequest(str(path), self.name), StageProgress())
                assert Subnet.open(str(path)).facts.exports[self.name] == done.record
        return [Subnet.open(str(path)) for path in paths]

    @pytest.mark.parametrize("family", FAMILIES)
    def test_what_is_written_computes_the_same(self, family: str, folder: Path) -> None:
        module = self.usable()
        for subnet in self.exported(family, folder):
            record, written = subnet.facts.exports[self.name], subnet.path / "exports" / self.name
            assert record["largest_difference"] <= record["tolerance"] == getattr(module, "TOLERANCE", 1e-4)
            assert record.get("decoder_largest_difference", 0.0) <= 1e-4
            assert (hasattr(module, "call") and family != "encoder") == ("decoder_largest_difference" in record)
            assert {RECORD, *record["files"]} == {path.name for path in written.iterdir()} and record["bytes"] > 0
        job = ExportJob(subnet, subnet.arch.context, False)
        call = module.load(job, written)
        for real in (job.length, job.length // 2, 1):
            inputs = padded(job, real)
            with torch.no_grad():
                assert torch.allclose(call(inputs), job.module(*inputs), atol=1e-5)

    def test_int8_is_judged_by_the_loss(self, tmp_path: Path) -> None:
        if not self.usable().INT8:
            pytest.skip("only for formats with int8")
        subnet = ship(Transformer(space("lm").smallest(), seed=0), tmp_path / "small")
        done = run(ExportRequest(str(subnet.path), self.name, int8=True, out=tmp_path / "out"), StageProgress())
        assert done.record["plain_loss"] <= done.record["loss"] <= done.record["plain_loss"] + 0.05
        assert done.record["most_loss_increase"] == 0.05 and "random tokens" in done.record["compared_on"]
