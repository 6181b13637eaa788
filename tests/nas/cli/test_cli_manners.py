"""The manners of the command line: completion, colours, the log of a run, and what nobody expected."""

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from nas import cli
from nas.cli._log import folders, without_secrets
from nas.stages.evaluate import run as evaluation
from tests.nas.runs import nas, refused

SEARCH = ("search", "a", "--trials", "3", "--limit", "4")


@pytest.fixture
def made(here):
    """Names to complete: a run, a subnet and a profile, as far as completion looks."""
    for path in ("first/config.yaml", "first/subnets/7b9f/architecture.json", "profiles/mine/profile.yaml"):
        path = Path("runs", path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    Path("runs/first/pareto.json").write_text('{"architectures": [{"key": "8c3a0123456789"}]}', "utf-8")
    Path("my-board.yaml").write_text("schema_version: 1\nname: my-board\nruntime: torch-eager\n", "utf-8")
    Path("my-space.yaml").write_text("schema_version: 1\nname: my-space\n", "utf-8")
    Path("boards/other").mkdir(parents=True)
    Path("boards/board.yaml").write_text("name: board\nruntime: torch-eager\n", "utf-8")
    Path("boards/other/profile.yaml").touch()
    return here


@pytest.mark.parametrize(("line", "offers"), [
    ("nas ex", ["extract", "export"]),
    ("nas train --space lm-t", ["lm-tiny"]),
    ("nas train --resume f", ["first"]),
    ("nas show bert-base-", ["bert-base-encoder"]),
    ("nas profile cpu-x", ["cpu-xnnpack"]),
    ("nas latency mi", ["mine"]),
    ("nas search f", ["first"]),
    ("nas search first --device mi", ["mine"]),
    ("nas export first/7", ["first/7b9f"]),
    ("nas evaluate fi", ["first", "first/7b9f"]),
    ("nas watch x", []),
    ("nas show first/", ["first/7b9f", "first/8c3a01234567"]),
    ("nas count first/8", ["first/8c3a01234567"]),
    ("nas latency mine fir", ["first/7b9f", "first/8c3a01234567"]),
    ("nas search first --device my", ["my-board.yaml"]),
    ("nas profile boards/", ["boards/board.yaml", "boards/other"]),
])
def test_the_shell_completes_names(made, capsys, monkeypatch, line, offers):
    monkeypatch.setenv("_NAS_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    assert cli.main([]) == 0
    assert sorted(capsys.readouterr().out.split()) == sorted(offers)


def test_completion_is_installed_and_quick(here, capsys, monkeypatch):
    monkeypatch.setenv("HOME", str(here))
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert nas(capsys, "--install-completion", "bash")[0] == 0
    assert "_NAS_COMPLETE=complete_bash" in (here / ".bash_completions" / "nas.sh").read_text("utf-8")
    code = ("import sys, nas.cli\ntry:\n    nas.cli.main([])\nfinally:\n"
            "    assert not {'torch', 'scipy', 'optuna'} & set(sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env={
        **os.environ, "_NAS_COMPLETE": "complete_bash", "COMP_WORDS": "nas profile cp", "COMP_CWORD": "2"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "cpu" in done.stdout.split()


def colours(text):
    """The escape sequences that set a colour."""
    codes = [code for found in re.findall(r"\x1b\[([0-9;]*)m", text) for code in found.split(";") if code]
    return [code for code in codes if 30 <= int(code) <= 49 or 90 <= int(code) <= 107]


def test_no_color_is_respected(here, finished, capsys, monkeypatch):
    finished()
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert colours("".join(nas(capsys, *SEARCH)[1:]))  # bars and tables on what is taken for a terminal
    monkeypatch.setenv("NO_COLOR", "1")
    for argv in (("search", "a", "--more", "2"), ("pareto", "a"), ("doctor",), ("--help",), ("extract", "a"),
                 ("show", "nowhere")):
        _, out, err = nas(capsys, *argv)
        assert out + err
        assert not colours(out + err), argv


def log_of(run):
    return Path("runs", run, "log.txt").read_text("utf-8")


def test_a_run_logs_its_commands(here, finished, capsys):
    finished()
    assert " nas train --space space.yaml" in log_of("a").splitlines()[0]
    before = log_of("a")
    assert nas(capsys, *SEARCH)[0] == 0
    said = refused(capsys, "evaluate", "a", "--split", "middle")
    assert nas(capsys, "report", "./runs/a")[0] == 0
    lines = log_of("a").removeprefix(before).splitlines()
    when = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d{4}"
    assert re.fullmatch(when + r" nas search a --trials 3 --limit 4 \| done after [0-9.]+ s", lines[0])
    assert re.fullmatch(when + r" nas evaluate a --split middle \| refused after [0-9.]+ s", lines[1])
    assert lines[2].strip() == said.removeprefix("nas: ").strip()
    assert re.fullmatch(when + r" nas report ./runs/a \| done after [0-9.]+ s", lines[3])
    assert len(lines) == 4


def test_warnings_and_stops_are_logged(here, finished, capsys, monkeypatch):
    finished()

    def warned_and_stopped(*_):
        warnings.warn("mind the gap", UserWarning, stacklevel=1)
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluation, "run", warned_and_stopped)
    with pytest.warns(UserWarning, match="mind the gap"):
        assert nas(capsys, "evaluate", "a")[0] == 130
    head, warning = log_of("a").splitlines()[-2:]
    assert "nas evaluate a | stopped after" in head
    assert warning.startswith("    UserWarning: mind the gap (")


def break_it(*_):
    raise ZeroDivisionError("a thing\nof two lines, token=hunter2")


def test_what_nobody_expected_is_one_sentence_and_a_log(here, finished, capsys, monkeypatch):
    finished()
    monkeypatch.setattr(evaluation, "run", break_it)
    code, out, err = nas(capsys, "evaluate", "a")
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert "ZeroDivisionError: a thing" in err and "runs/a/log.txt" in err
    assert "Traceback (most recent call last)" in log_of("a") and "in break_it" in log_of("a")
    assert "paretoformer" in log_of("a") and "hunter2" not in log_of("a")
    monkeypatch.setenv("NAS_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        nas(capsys, "evaluate", "a")


def test_without_a_run_the_log_is_beside_the_runs(here, capsys, monkeypatch):
    monkeypatch.setattr("nas.cli.architectures.show_result", break_it)
    code, _, err = nas(capsys, "spaces")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "runs/log.txt" in err and "nas spaces | failed" in Path("runs/log.txt").read_text("utf-8")
    monkeypatch.setenv("NAS_DEBUG", "0")
    Path("runs/log.txt").unlink()
    Path("runs/log.txt").mkdir()
    assert "log.txt" not in nas(capsys, "spaces")[2]


def test_a_log_that_cannot_be_written_is_no_failure(here, finished, capsys):
    finished()
    Path("runs/a/log.txt").unlink()
    Path("runs/a/log.txt").mkdir()
    code, _, err = nas(capsys, *SEARCH)
    assert (code, err) == (0, "")


def test_runs_are_found_by_all_their_names(made):
    Path("pipeline.yaml").write_text("run: first\n", "utf-8")
    first = Path("runs/first")
    for params in ({"run": "first"}, {"resume": "first"}, {"subnet": "first/7b"}, {"name": "runs/first/subnets/7b9f"},
                   {"names": ["first", "first/7b9f"]}, {"config": "pipeline.yaml"}):
        assert folders(params) == [first], params
    for params in ({}, {"run": None}, {"run": "second"}, {"space": "first"}, {"config": "nowhere.yaml"}):
        assert folders(params) == [], params


@pytest.mark.parametrize("text", [
    "hf_token=hunter2", "--hf-token hunter2", "--token=hunter2", "token: hunter2", "{'api_key': 'hunter2'}",
    "password: 'hunter2'", "AWS_SECRET_ACCESS_KEY=hunter2", "client_secret=hunter2", "https://x.org/?token=hunter2&a=b",
    "Authorization: Bearer hunter2", "passphrase = hunter2", "ftp://me:hunter2@x.org", "--set my.token=hunter2",
])
def test_what_is_called_a_secret_is_masked(text):
    assert "hunter2" not in without_secrets(text) and "***" in without_secrets(text)


@pytest.mark.parametrize("text", [
    "nas generate first/7b9f 'The function' --tokens 40 --seed 1", "pad_token=<pad>", "tokens: 1000", "n_tokens=5",
    "train/tokens_per_s: 12.5", "the token is wrong", "--top-k 5", "token_types=2", "secrets of the trade: none",
])
def test_what_is_no_secret_is_kept(text):
    assert without_secrets(text) == text


def test_secrets_stay_out():
    said = without_secrets("ray://me:hunter2@head:6379 --data hf_token=hunter2 password: 'hunter2' https://x.org/a@b")
    assert "hunter2" not in said and "head:6379" in said and "https://x.org/a@b" in said
