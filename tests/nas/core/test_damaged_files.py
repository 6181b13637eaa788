"""Files of a run whose values are of another type, size or depth than expected: one sentence with the place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from hardware_profiles.transports._rounds import check_rounds, check_stored
from nas.pipeline.outcome import shown_time
from nas.tasks.tokenizer import train_tokenizer
from search_spaces import InputError, load_space
from supernet import Supernet, Transformer
from supernet.room import GIB, check_room, free_bytes
from tests.nas.runs import SPACE, nas, refused
from tests.nas.stages.report.conftest import filled, full  # noqa: F401 - fixtures

DEEP = "[" * 20_000
BOMB = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9))


@pytest.fixture(autouse=True)
def _run(full):  # noqa: F811
    full()


def write(name, text):
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())


def change_line(path, line, **changes):
    """A line of JSON with other values; `a.b` reads inside."""
    lines = Path(path).read_text("utf-8").splitlines()
    data = json.loads(lines[line])
    for name, value in changes.items():
        *outer, last = name.split("__")
        inside = data
        for each in outer:
            inside = inside[each]
        inside[last] = value
    lines[line] = json.dumps(data)
    write(path, "\n".join(lines) + "\n")


@pytest.mark.parametrize(("content", "says"), [
    (DEEP, "manifest.json: not valid JSON: nested too deeply"), ("[]", "must be a table of keys, found a list"),
    ("true", "found true or false"), ('{"starts": -1}', "is damaged (starts: "), ('{"starts": [3]}', "starts.0"),
    (b"\xff", "is not UTF-8 text: byte 0"), ('{"space_sha256": ' + "9" * 5000 + "}", "has 5,000 digits")])
def test_a_damaged_manifest(capsys, content, says):
    write("runs/a/manifest.json", content)
    for command in (("watch", "a", "--once"), ("train", "--resume", "a"), ("report", "a")):
        assert says in refused(capsys, *command)


@pytest.mark.parametrize(("row", "says"), [
    ("3,train/loss_largest,low", "line 3: 'low' is not a number"), ("x,train/loss_largest,1", "line 3: 'x,train/loss"),
    ("²,train/loss_largest,1", "line 3: '²,train"), ("9" * 5000 + ",a,1", "is not a step, a metric and a value"),
    ("\0\0,,", "line 3: ")])
def test_damaged_metrics(capsys, row, says):
    path = Path("runs/a/metrics.csv")
    lines = path.read_bytes().splitlines()
    lines[2] = row.encode()
    write(path, b"\n".join(lines) + b"\n")
    for command in (("watch", "a", "--once"), ("report", "a")):
        assert says in refused(capsys, *command)
    assert nas(capsys, "train", "--resume", "a")[0] == 0  # a training does without the row
    assert lines[2] not in path.read_bytes() and lines[3] in path.read_bytes()


def test_metrics_that_are_no_text(capsys):
    write("runs/a/metrics.csv", b"step,metric,value\n\xff\n")
    for command in (("watch", "a", "--once"), ("train", "--resume", "a"), ("report", "a")):
        assert "metrics.csv: is not UTF-8 text: byte 18 cannot be read; restore it" in refused(capsys, *command)


def test_a_last_row_of_metrics_that_was_cut_off_does_not_matter(capsys):
    with Path("runs/a/metrics.csv").open("a") as file:
        file.write("7,train/lo")
    assert nas(capsys, "watch", "a", "--once")[0] == nas(capsys, "train", "--resume", "a")[0] == 0


@pytest.mark.parametrize(("cell", "says"), [
    ("low", "loss: 'low' is not a number"), ("x" * 200_000, "is not CSV: field")])
def test_damaged_trials(capsys, cell, says):
    path = Path("runs/a/trials.csv")
    lines = path.read_text("utf-8").splitlines()
    place = lines[0].split(",").index("loss")
    lines[1] = ",".join(cell if i == place else each for i, each in enumerate(lines[1].split(",")))
    write(path, "\n".join(lines) + "\n")
    assert says in refused(capsys, "watch", "a", "--once")
    path.write_text(path.read_text("utf-8").replace(cell, "nan"), "utf-8")
    assert nas(capsys, "watch", "a", "--once")[0] == 0


@pytest.mark.parametrize(("changes", "says"), [
    ({"values": ["low", 1.0, 2.0]}, "line 3: is damaged (values.0: "),
    ({"params__width": 10**12}, "is not a journal of a"),
    ({"params__width": -1}, "line 3: is damaged (params.width"), ({"user_attrs__key": 3}, "trial 0: is damaged (key"),
    ({"user_attrs__costs": {"params": "many"}}, "trial 0: is damaged (costs.params"), ({"op_code": "x"}, "(op_code"),
    ({"user_attrs__metrics": {}}, "trial 0: has no loss"), ({"user_attrs__interval": "x"}, "(interval"),
    ({"values": [float("nan"), 1.0, 2.0]}, "values.0"), ({"user_attrs__reason": "\ud800"}, "an unpaired surrogate")])
def test_a_damaged_journal(capsys, changes, says):
    change_line("runs/a/study.journal", 2, **changes)
    for command in (("report", "a"), ("pareto", "a"), ("search", "a")):
        assert says in refused(capsys, *command)


def test_a_journal_that_lacks_the_end_of_a_trial(capsys):
    path = Path("runs/a/study.journal")
    write(path, path.read_text("utf-8").replace('"datetime_complete"', '"datetime_completex"', 1))
    for command in (("report", "a"), ("pareto", "a"), ("search", "a")):
        assert "study.journal: is damaged (`datetime_complete` is supposed to be set" in refused(capsys, *command)


def test_a_journal_of_deep_or_endless_lines(capsys):
    before = Path("runs/a/study.journal").read_text("utf-8")
    for line, says in ((DEEP, "nested too deeply"), ('{"op_code": ' + "9" * 5000 + "}", "has 5,000 digits")):
        write("runs/a/study.journal", f"{before}{line}\n")
        assert says in refused(capsys, "pareto", "a")


@pytest.mark.parametrize(("changes", "says"), [
    ({"losses": ["low"]}, "(losses.0: "), ({"metrics": {"loss": [1]}}, "(metrics.loss: "), ({"key": None}, "(key: "),
    ({"interval": [1]}, "(interval.1: ")])
def test_damaged_evaluations(capsys, changes, says):
    path = next(Path("runs/a/evaluations").glob("*.jsonl"))
    change_line(path, 1, **changes)
    err = refused(capsys, "search", "a", "--more", "1")
    assert f"{path}, line 2: is damaged {says}" in err and "delete it; its evaluations are repeated" in err


@pytest.mark.parametrize("name", ["config.yaml", "search.yaml"])
def test_aliases_that_multiply_are_refused(capsys, name):
    path = Path("runs/a", name)
    path.write_text(f"{path.read_text('utf-8')}{BOMB}", "utf-8")
    err = refused(capsys, "watch", "a", "--once")
    assert "values; allowed: 100,000" in err and len(err) < 300


@pytest.mark.parametrize("text", [DEEP, BOMB.replace("a0: &a0 [x]", "a0: &a0 {x: 1}")], ids=["deep", "aliases"])
def test_what_users_write_is_neither_deep_nor_multiplied(capsys, text):
    write("odd.yaml", text)
    for command in (("run", "odd.yaml"), ("run", "odd.yaml", "--dry-run"), ("count", "odd.yaml"),
                    ("profile", "odd.yaml", "--space", "lm-tiny"),
                    ("search", "a", "--device", "odd.yaml", "--fresh")):
        err = refused(capsys, *command)
        assert "nested too deeply" in err or "values; allowed: 100,000" in err, command


@pytest.mark.parametrize(("name", "command"), [
    ("runs/a/starts.json", ("search", "a")), ("runs/a/data/data.json", ("evaluate", "a")),
    ("runs/a/config.yaml", ("watch", "a", "--once")), ("runs/a/search.yaml", ("search", "a")),
    ("runs/profiles/one/profile.yaml", ("latency", "one", "a/")), ("runs/a/pareto.json", ("show", "a/zz")),
    ("runs/profiles/one/check-prefill.json", ("report", "a"))])
def test_what_we_wrote_is_not_nested_without_end(capsys, name, command):
    write(name, DEEP)
    assert "nested too deeply" in refused(capsys, *command)


def test_the_front_describes_its_layers_in_a_line_each(capsys):
    code, out, _ = nas(capsys, "pareto", "a")
    lines = [line for line in out.splitlines() if " layer" in line and "width" in line]
    assert code == 0 and lines and all(" · " in line and "attention" in line for line in lines)


def test_weights_that_are_not_finite(capsys):
    subnet = next(path for path in Path("runs/a/subnets").iterdir() if path.name.isalnum())
    path = subnet / "model.safetensors"
    tensors = load_file(path)
    for value, says in ((float("nan"), "numbers that are not finite"), (3e38, "outputs of the model are not finite")):
        save_file({name: torch.full_like(tensor, value) for name, tensor in tensors.items()}, path)
        assert says in refused(capsys, "generate", str(subnet), "the")


def test_rounds_that_were_changed():
    good = {"round": 0, "seconds": [["a", 0.1], ["b", 0.2]], "spent_s": 1.0}
    assert check_stored(good, "x", "delete it") == good
    for change, says in (({"seconds": [["a", "fast"]]}, "must be a name and a number"),
                         ({"seconds": []}, "a round without"),
                         ({"seconds": 3}, "neither a header nor a round"), ({"spent_s": float("nan")}, "took nan s"),
                         ({"seconds": [["a", -1.0]]}, "the time of a in round 0 is -1 s")):
        with pytest.raises(InputError, match=f"x: is damaged .*{says}.*; delete it"):
            check_stored({**good, **change}, "x", "delete it")
    with pytest.raises(InputError, match="round 0 has no time of the reference c"):
        check_rounds([good], "c", "mine")


def test_times_beyond_all_calendars_are_shown():
    assert (shown_time(0), shown_time(2.5), shown_time(90)) == ("", "2.5 s", "0:01:30")
    assert shown_time(1e18) == "31,709,791,984 years" and shown_time(float("inf")) == "inf years"


def test_a_store_that_cannot_fit_says_what_it_takes(tmp_path):
    for old, new in (("context: 8", "context: 1000000000"), ("inner: [1x, 2x]", "inner: [1000000000]")):
        write(tmp_path / "large.yaml", SPACE.replace(old, new))
        space = load_space(tmp_path / "large.yaml")
        with pytest.raises(InputError, match=r"supernet of toy: its weights need [\d,.]+ GiB; [\d,.]+ GiB are free"):
            Supernet(space)
        with pytest.raises(InputError, match=r"its weights and tables need [\d,.]+ GiB; [\d,.]+ GiB are free"):
            Transformer(space.largest())


def test_what_fits_is_not_refused():
    cpu = torch.device("cpu")
    free = free_bytes(cpu)
    assert free is not None
    check_room("a", free // 2, "its weights", cpu, "use less")
    check_room("a", 2**60, "its weights", torch.device("meta"), "use less")
    with pytest.raises(InputError, match=rf"a: its weights need {2**60 / GIB:,.1f} GiB; .* use less"):
        check_room("a", 2**60, "its weights", cpu, "use less")


def test_a_word_of_a_hundred_thousand_letters_makes_a_vocabulary():
    assert train_tokenizer(["x" * 100_000 + " the quick brown fox"], 26, "you requested").get_vocab_size() == 26
