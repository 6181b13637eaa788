"""`nas train --init`: a supernet that starts from a trained model, which teaches it."""

import json
from pathlib import Path

import pytest
import torch

from nas.core import evaluation as stage
from nas.core.run_dir import RunDir
from nas.stages.train.init import load_init, teaches
from nas.stages.train.training import make_trainer
from supernet import Transformer, extract
from supernet.inference import run_model
from tests.nas.runs import LIVELY, SPACE, interrupted, nas, options, refused, started, state
from tests.nas.subnets import write_extracted

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def largest(finished):
    """The largest architecture of a finished run as a subnet in `big`."""
    finished()
    run = RunDir.open("a")
    return write_extracted("a", stage.prepare(run).space.largest(), Path("big"))


def starting_point(name):
    """The trainer of a run before its first step."""
    run = RunDir.open(name)
    model = load_init(run, run.config().training)
    return make_trainer(stage.prepare(run), run.config().training, model=model, teacher=model if teaches(run) else None)


@pytest.mark.parametrize("source", ["big", "a"])
def test_the_largest_of_the_supernet_is_the_model(capsys, largest, source):
    code, out, err = nas(capsys, *options("b", steps=2), "--init", source)
    assert (code, err) == (0, "") and f"initialised from {source}, ordered by importance\n" in out
    trainer = starting_point("b")
    batch = trainer.data.batch(0, 4, 0)
    with torch.no_grad():
        wanted = run_model(Transformer.from_pretrained("big"), largest.arch, batch)
        found = run_model(trainer.model.eval(), largest.arch, batch)
        told = trainer.teacher.tell(batch, trainer.recipe, ("logits",))["logits"]
    assert (found - wanted).abs().max() < 1e-5 and (told - wanted).abs().max() < 1e-5
    report = json.loads(Path("runs/b/init/ordering.json").read_text("utf-8"))
    assert report["schema_version"] == 1 and sorted(report["orders"]["width"]) == list(range(12))
    assert set(report["layers"]) == {"decoder.0", "decoder.1"}


def test_a_model_inside_the_space_fills_its_part(capsys, finished):
    finished()
    small = write_extracted("a", folder=Path("small"))
    code, out, err = nas(capsys, *options("b", steps=2), "--init", "small")
    assert (code, err) == (0, "")
    assert ("it is smaller than the space (width is 8, but in the space's largest 12), and the missing weights are "
            "initialised randomly") in out.replace("\n", " ")
    trainer = starting_point("b")
    batch = trainer.data.batch(0, 4, 0)
    with torch.no_grad():
        wanted = run_model(Transformer.from_pretrained("small"), small.arch, batch)
        assert (run_model(trainer.model.eval(), small.arch, batch) - wanted).abs().max() < 1e-5


@pytest.mark.parametrize("strategy", ["sandwich", "balanced", "single", "turns", "largest", "progressive"])
def test_every_strategy_learns_from_the_model(capsys, largest, strategy):
    """With soft targets alone, labels do not matter: a first step with other labels is the same."""
    nas(capsys, *options("b", steps=1, strategy=strategy, distill=1, layerdrop=0, ema=0), "--init", "big")
    trainers = [starting_point("b") for _ in range(2)]
    honest = trainers[1].data.batch
    object.__setattr__(trainers[1], "data", _Relabelled(honest))
    for trainer in trainers:
        trainer.step()
    one, other = (trainer.model.state_dict() for trainer in trainers)
    assert all(torch.equal(one[name], other[name]) for name in one)


class _Relabelled:
    def __init__(self, batch):
        self.honest = batch

    def batch(self, *where):
        found = self.honest(*where)
        return type(found)(found.tokens, (found.labels + 1) % 60)


@pytest.mark.parametrize("at", [1, 5])
def test_a_stopped_run_resumes_bit_by_bit_without_the_model(capsys, monkeypatch, largest, at):
    assert nas(capsys, *options("straight", **LIVELY), "--init", "big")[0] == 0
    assert interrupted(capsys, monkeypatch, [*options("b", **LIVELY), "--init", "big"], at=at)[0] == 130
    for path in Path("big").iterdir():
        path.unlink()
    assert nas(capsys, "train", "--resume", "b")[0] == 0
    assert state("b") == state("straight")


def test_ordering_on_the_way_resumes_bit_by_bit(capsys, monkeypatch):
    settings = {**LIVELY, "order_at": 0.4}  # before the fifth of nine steps
    started(capsys, "straight", **settings)
    assert interrupted(capsys, monkeypatch, options("before", **settings), at=4)[0] == 130
    assert interrupted(capsys, monkeypatch, options("after", **settings), at=5)[0] == 130
    for name in ("before", "after"):
        assert nas(capsys, "train", "--resume", name)[0] == 0
        assert state(name) == state("straight")


class TestRefusals:
    def test_other_dims_are_named(self, capsys, largest):
        text = SPACE.replace("width: [8, 12]", "width: [8, 16]")
        Path("space.yaml").write_text(text, "utf-8")
        says = refused(capsys, *options("b"), "--init", "big")
        assert "big: is not in the space toy: width is 12, but in the space's largest 16" in says.replace("\n", " ")
        assert not Path("runs/b").exists()

    def test_another_vocabulary(self, capsys, largest):
        argv = [each.replace("vocab_size=60", "vocab_size=50") for each in options("b")]
        assert "its vocabulary has 60 tokens, that of the data 50" in refused(capsys, *argv, "--init", "big")

    def test_another_tokenizer(self, capsys, largest):
        Path("text.txt").write_text(Path("text.txt").read_text("utf-8").replace("wizards", "lizards"), "utf-8")
        assert "its tokenizer differs from that of the data" in refused(capsys, *options("b"), "--init", "big")

    def test_no_such_model_and_missing_tensors(self, capsys, largest):
        assert "nowhere" in refused(capsys, *options("b"), "--init", "nowhere")
        Path("big/model.safetensors").write_bytes(b"")
        assert "big/model.safetensors" in refused(capsys, *options("b"), "--init", "big")

    def test_another_model_on_resume(self, capsys, monkeypatch, largest):
        assert interrupted(capsys, monkeypatch, [*options("b"), "--init", "big"], at=2)[0] == 130
        says = refused(capsys, "train", "--resume", "b", "--init", "a")
        assert "init is big in the run, requested: a" in says

    def test_ordering_twice(self, capsys, largest):
        says = refused(capsys, *options("b", order_at=0.5), "--init", "big")
        assert "order_at: applies to random initial weights only; the model of --init is ordered" in says


def test_an_extracted_subnet_of_such_a_run_is_ordinary(capsys, largest):
    nas(capsys, *options("b", steps=2), "--init", "big")
    run = RunDir.open("b")
    prepared = stage.prepare(run)
    net = stage.load_supernet(run, prepared.space)
    assert extract(net, prepared.space.smallest()).arch == prepared.space.smallest()


def test_a_pick_may_start_from_the_model_again(capsys, largest):
    """Without the training of the supernet: a rate of nothing leaves the model's own weights."""
    assert nas(capsys, *options("b", steps=2), "--init", "big")[0] == 0
    arch = stage.prepare(RunDir.open("b")).space.largest()
    subnet = write_extracted("b", arch, Path("runs/b/subnets/pick"))
    still = ("--set=steps=1", "--set=lr=1e-12", "--set=weight_decay=0", "--teacher", "none")
    assert nas(capsys, "retrain", str(subnet.path), "--init", "model", *still)[0] == 0
    found, wanted = Transformer.from_pretrained("runs/b/subnets/pick-retrained"), Transformer.from_pretrained("big")
    batch = stage.prepare(RunDir.open("b")).valid.batch(0, 4, 0)
    with torch.no_grad():
        assert (run_model(found.eval(), arch, batch) - run_model(wanted.eval(), arch, batch)).abs().max() < 1e-4
        assert (run_model(subnet.model().eval(), arch, batch) - run_model(wanted, arch, batch)).abs().max() > 1e-3
    other = write_extracted("a", arch, Path("runs/a/subnets/pick"))
    assert "did not start from a trained model; allowed: inherit, scratch" in refused(
        capsys, "retrain", str(other.path), "--init", "model")
