"""`nas rank` from the command line: its report, its files, and that nothing is trained twice."""

import csv
import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from nas import api
from nas.core import evaluation as stage
from nas.core.run_dir import RunDir, json_text
from nas.stages.rank import ceiling, scratch
from nas.stages.rank import run as rank
from nas.stages.rank.plot import scatter
from search_spaces import load_architecture
from supernet.train.recipe import Recipe
from tests.nas.runs import nas, refused

RANK = ("rank", "a", "-n", "5", "--steps", "4")


@pytest.fixture(autouse=True)
def here(finished, tmp_path, monkeypatch):
    """A folder with the finished run; figures from few draws, and no picture."""
    monkeypatch.chdir(tmp_path)
    finished()
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(ceiling, "SIMULATIONS", 5)
    monkeypatch.setattr(rank, "scatter", lambda frame, report, path: path.write_text("<svg/>", "utf-8"))


@pytest.fixture
def fits(monkeypatch):
    """How many steps each training from scratch took, in order."""
    taken = []
    honest = scratch.fit

    def fit(trainer, *rest):
        before = trainer.progress.step
        done = honest(trainer, *rest)
        taken.append(trainer.progress.step - before)
        return done

    monkeypatch.setattr(scratch, "fit", fit)
    return taken


def table():
    with Path("runs/a/rank/ranking.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_report_with_table_figures_and_picture(capsys, fits, monkeypatch):
    monkeypatch.setattr(rank, "scatter", scatter)
    code, out, err = nas(capsys, *RANK)
    assert (code, err) == (0, "")
    for text in ("each was trained from scratch for 4 steps, the supernet for 6", "5 architectures, all",
                 "of nearly equal MACs", "the supernet's loss", "parameters", "depth",
                 "standard deviation of the loss over seeds"):
        assert text in out
    assert fits == [4] * 7  # five, and two of them from a second seed
    rows = table()
    assert len({row["key"] for row in rows}) == 5
    assert [bool(row["repeat_loss"]) for row in rows] == [True, False, False, False, True]
    assert all(float(row["trained_loss"]) > 0 and float(row["inherited_loss"]) > 0 for row in rows)
    figures = json.loads(Path("runs/a/rank/ranking.json").read_text("utf-8"))
    assert (figures["schema_version"], figures["steps"], figures["overall"]["n"]) == (1, 4, 5)
    assert figures["supernet_steps"] == 6
    assert Path("runs/a/rank/ranking.svg").read_text("utf-8").lstrip().startswith("<?xml")


def test_every_training_keeps_what_it_is_of(capsys):
    assert nas(capsys, *RANK)[0] == 0
    space = RunDir.open("a").space()
    for folder in Path("runs/a/rank").glob("*-steps4-seed*"):
        arch, result = load_architecture(folder), json.loads((folder / "result.json").read_text("utf-8"))
        assert arch.key == result["key"] and folder.name.startswith(arch.key[:16])
        assert arch in space
        assert (result["steps"], result["seed"]) == (4, int(folder.name[-1]))
        assert not (folder / "checkpoints").exists()


def test_with_json_one_document_is_all_there_is_on_stdout(capsys):
    code, out, _ = nas(capsys, *RANK, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["schema_version"] == 1
    assert {figure["name"] for figure in found["overall"]["figures"]} == {
        "inherited_loss", "params", "non_embedding_params", "macs", "depth", "grad_norm", "synflow"}


def test_a_second_call_trains_nothing_and_says_the_same(capsys, fits):
    first = nas(capsys, *RANK, "--json")
    before, fits[:] = table(), []
    assert nas(capsys, *RANK, "--json")[:2] == first[:2]
    assert (fits, table()) == ([], before)


def test_more_architectures_use_what_was_trained(capsys, fits):
    assert nas(capsys, *RANK)[0] == 0
    there = {path.name for path in Path("runs/a/rank").glob("*-steps4-*")}
    fits.clear()
    assert nas(capsys, "rank", "a", "-n", "6", "--steps", "4")[0] == 0
    assert len(fits) == len({path.name for path in Path("runs/a/rank").glob("*-steps4-*")} - there)


def test_other_lengths_are_trainings_of_their_own(capsys, fits):
    assert nas(capsys, "rank", "a", "-n", "4", "--steps", "3")[0] == 0
    assert nas(capsys, "rank", "a", "-n", "4")[0] == 0
    assert fits == [3] * 5 + [6] * 5


def test_stopped_it_goes_on_when_called_again(capsys, monkeypatch, fits):
    assert nas(capsys, *RANK, "--json")[0] == 0
    straight = table()
    shutil.rmtree("runs/a/rank")
    fits.clear()
    honest, seen = rank._Steps.on_step, []

    def on_step(self, report):
        honest(self, report)
        seen.append(report.step)
        if len(seen) == 10:  # in the middle of the third training
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(rank._Steps, "on_step", on_step)
        code, out, err = nas(capsys, *RANK)
    assert (code, err, fits) == (130, "", [4, 4, 2])
    assert "stopped; resume with: nas rank a -n 5 --steps 4" in out
    assert not Path("runs/a/rank/ranking.csv").exists()
    assert nas(capsys, *RANK)[0] == 0
    assert fits == [4, 4, 2, 2, 4, 4, 4, 4]
    assert table() == straight


def test_stopped_while_the_supernet_is_evaluated_it_stops(capsys, monkeypatch):
    honest, seen = stage.score, []

    def score(*rest, **more):
        seen.append(1)
        if len(seen) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return honest(*rest, **more)

    monkeypatch.setattr(stage, "score", score)
    code, out, err = nas(capsys, *RANK)
    assert (code, err, len(seen)) == (130, "", 2)
    assert "stopping; press Ctrl-C again to abort" in out and "resume with: nas rank a -n 5 --steps 4" in out
    assert not Path("runs/a/rank/ranking.csv").exists()


@pytest.mark.parametrize(("steps", "warmup"), [(500, 50), (1000, 100), (3000, 300), (1, 0)])
def test_the_warmup_is_the_same_part_of_any_number_of_steps(steps, warmup):
    recipe = rank.from_scratch(Recipe(steps=1000, warmup=100, layerdrop=0.2, patience=3), steps)
    assert (recipe.steps, recipe.warmup, recipe.layerdrop, recipe.patience) == (steps, warmup, 0, 0)


def test_an_unfinished_run_is_refused_with_the_command_that_finishes_it(capsys):
    Path("runs/a/supernet.safetensors").unlink()
    err = refused(capsys, *RANK)
    assert "runs/a: training of the supernet is not finished; run nas train --resume a" in err
    assert not Path("runs/a/rank").exists()


def test_damaged_weights_are_told_without_bad_advice(capsys):
    path = Path("runs/a/supernet.safetensors")
    path.write_bytes(path.read_bytes()[:99])
    err = refused(capsys, *RANK)
    assert str(path) in err and "delete it and run nas train --resume a" in err and len(err.splitlines()) == 1


def test_a_damaged_result_is_told(capsys):
    assert nas(capsys, "rank", "a", "-n", "4", "--steps", "1")[0] == 0
    path = next(Path("runs/a/rank").glob("*/result.json"))
    for content in ("{", "[]", '{"metrics": {"loss": "low"}}', '{"metrics": {}}', "[" * 20_000):
        path.write_text(content, "utf-8")
        err = refused(capsys, "rank", "a", "-n", "4", "--steps", "1")
        assert f"{path}: " in err and "; delete it to train this architecture again" in err


@pytest.mark.parametrize(("argv", "says"), [
    (("rank", "a", "-n", "3"), "-n: 3 is not allowed; allowed: 4 or more"),
    (("rank", "a", "-n", "-1"), "-1"),
    (("rank", "a", "-n", "9999"), "fewer than the requested 9999"),
    (("rank", "a", "--steps", "0"), "--steps"),
    (("rank", "b"), "runs/b: is not a run; runs here: a"),
    (("rank",), "RUN"),
])
def test_asked_wrongly(capsys, argv, says):
    err = refused(capsys, *argv)
    assert says in err and len(err.splitlines()) == 1


def test_the_chosen_do_not_depend_on_the_call():
    one, other = (rank.Ranking(RunDir.open("a"), 5, 4) for _ in range(2))
    assert [folder for _, _, folder, _ in one.trainings()] == [folder for _, _, folder, _ in other.trainings()]
    recipe = one.trainings()[0][1]
    assert (recipe.steps, recipe.layerdrop, recipe.patience, recipe.evaluate_every, recipe.dropout) == (4, 0, 0, 0, 0.1)
    assert [recipe.seed for _, recipe, _, _ in one.trainings()] == [0] * 5 + [1] * 2


def test_the_function_reports_what_the_command_does(capsys):
    report = json.loads(json_text(api.rank("a", n=5, steps=4).to_dict()))
    assert {"schema_version": 1, **report} == json.loads(nas(capsys, *RANK, "--json")[1])
