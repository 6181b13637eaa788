"""`nas train` asked wrongly: one sentence each, and nothing is left behind."""

import shutil
from pathlib import Path

import pytest

from nas.core.run_dir import folder_of_run
from search_spaces import InputError
from tests.nas.runs import nas, options, refused, state

pytestmark = pytest.mark.usefixtures("here")


def test_a_name_is_taken_once(capsys, finished):
    finished()
    before = state("a")
    err = refused(capsys, *options("a", seed=1))
    assert "runs/a: exists; resume it with nas train --resume a, or choose another name" in err
    assert state("a") == before


@pytest.mark.parametrize("name", ["..", ".", "a b", "", "../..", "./", "$x", "a b/c", "~/a", "deep/a b/c"])
def test_names_that_are_none(capsys, here, name):
    before = sorted(here.rglob("*"))
    assert "is not allowed; allowed: letters, digits" in refused(capsys, *options(name))
    assert sorted(here.rglob("*")) == before


def test_a_folder_that_is_there_may_be_called_anything(here):
    with pytest.raises(InputError, match="'my runs/a' is not allowed"):
        folder_of_run("my runs/a")
    Path("my runs").mkdir()
    assert folder_of_run("my runs/a") == Path("my runs/a") and folder_of_run("a") == Path("runs/a")
    assert folder_of_run(str(here / "my runs" / "a")) == here / "my runs" / "a"


def test_a_folder_of_other_things_is_left_alone(capsys, here):
    mine = here / "project"
    (mine / "data").mkdir(parents=True)
    (mine / "data" / "precious.txt").write_text("years of work", "utf-8")
    (mine / "space.yaml").write_text("mine", "utf-8")
    before = {path: path.is_file() and path.read_bytes() for path in mine.rglob("*")}
    for argv in (options("./project"), [*options("./project"), "--data", "limit=nonsense"]):
        assert "project: contains other files (data, space.yaml); choose another name" in refused(capsys, *argv)
        assert {path: path.is_file() and path.read_bytes() for path in mine.rglob("*")} == before


@pytest.mark.parametrize(("left_out", "says"), [
    (("--space", "--task", "--run"), "a new run needs --space and --task and --run"),
    (("--run",), "a new run needs --run; resume an old one with --resume NAME"),
    (("--task",), "a new run needs --task, or --init SUBNET to start from a trained model; resume an old one"),
])
def test_missing_options(capsys, left_out, says):
    argv = options("a")
    for name in left_out:
        place = argv.index(name)
        del argv[place:place + 2]
    assert says in refused(capsys, *argv)


@pytest.mark.parametrize(("extra", "says"), [
    (("--set", "stebs=3"), "--set: stebs: unknown setting; allowed: seed, steps, batch_size"),
    (("--set", "batchsize=3"), "bad_steps; did you mean batch_size?"),
    (("--set", "keep=0"), "--set: keep: '0' is not allowed: input should be greater than or equal to 1"),
    (("--set", "keep=many"), "keep: 'many' is not allowed: input should be a valid integer"),
    (("--set", "keep="), "keep: '' is not allowed"),
    (("--set", "distill=1.5"), "distill: '1.5' is not allowed: input should be less than or equal to 1"),
    (("--set", "beta2=nan"), "beta2: 'nan' is not allowed"),
    (("--set", "final_lr=-1"), "final_lr: '-1' is not allowed"),
    (("--set", "weight_decay=inf"), "weight_decay: 'inf' is not allowed: input should be a finite number"),
    (("--set", "seed=-1"), "seed: '-1' is not allowed"),
    (("--set", f"seed={2**63}"), "seed: '9223372036854775808' is not allowed: input should be less than"),
    (("--set", "strategy=sandwitch"), "strategy: 'sandwitch' is not allowed: input should be 'sandwich', 'balanced'"),
    (("--set", "checkpointing=maybe"), "checkpointing: 'maybe' is not allowed: input should be a valid boolean"),
    (("--set", "keep"), "--set: 'keep' must be KEY=VALUE"),
    (("--set", "=3"), "--set: '=3' must be KEY=VALUE"),
    (("--set", "steps=7"), "--set: steps: is given twice"),
    (("--data", "train=x"), "--data: train: is given twice"),
    (("--data", "colour=red"), "colour: unknown; allowed: train,"),
    (("--data", "limit=0"), "limit: is '0'; allowed: a whole number from 1"),
    (("--task", "poetry"), "task: unknown 'poetry'; allowed: classification, lm, masked-lm, regression, "
     "translation"),
    (("--task", "translation"), "task translation needs a space of the family seq2seq; toy is lm"),
    (("--space", "encoder-small"), "task lm needs a space of the family lm; encoder-small is encoder"),
    (("--space", "lm-tinny"), "did you mean lm-tiny?"),
    (("--space", "text.txt"), "text.txt: "),
    (("--workers", "0"), "--workers"),
    (("--walkers", "1"), "--walkers"),
])
def test_one_sentence_says_what_is_wrong_and_the_name_stays_free(capsys, extra, says):
    argv = options("a")
    argv.remove("--set=device=cpu")
    argv.remove("--set=strategy=sandwich")
    err = refused(capsys, *argv, *extra)
    assert says in err
    assert len(err.splitlines()) == 1
    assert not Path("runs/a").exists()


@pytest.mark.parametrize("device", ["toaster", "cuda:77", "mps:3"])
def test_a_device_that_is_not_there(capsys, device):
    err = refused(capsys, *options("a", device=device))
    assert f"device: '{device}' cannot be used" in err and len(err.splitlines()) == 1


def test_all_wrong_settings_are_told_at_once(capsys):
    err = refused(capsys, *options("a", keep=0, stebs=3, lr="fast"))
    assert {line.split(": ")[2] for line in err.splitlines()} == {"keep", "stebs", "lr"}


@pytest.mark.parametrize(("content", "says"), [
    (None, "text.txt: no such file"), (b"", "text.txt: is empty"), (b"caf\xe9 noir", "is not utf-8"),
    (b"a b\n", "too few"), (b"to be or not to be\n" * 30, "the training text yields only"),
])
def test_bad_data_free_the_name_again(capsys, content, says):
    path = Path("text.txt")
    good = path.read_bytes()
    path.write_bytes(content) if content is not None else path.unlink()
    assert says in refused(capsys, *options("a"))
    assert "is not a run" in refused(capsys, "train", "--resume", "a")
    path.write_bytes(good)
    assert nas(capsys, *options("a"))[0] == 0


def test_a_run_that_went_on_without_its_data_is_kept(capsys, finished):
    finished()
    shutil.rmtree("runs/a/data")
    Path("text.txt").unlink()
    assert "text.txt: no such file" in refused(capsys, "train", "--resume", "a")
    assert Path("runs/a/config.yaml").is_file()
