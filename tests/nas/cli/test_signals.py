"""Commands that get a signal, at start-up and at work, and commands whose standard streams are closed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nas.stages.evaluate import run as evaluation
from nas.stages.export import run as export_command
from tests.nas.runs import nas
from tests.nas.subnets import write_extracted

STOPS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
ROOT = Path(__file__).parents[3]


def program(code, *argv, **more):
    """Python code in a process of its own."""
    return subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": str(ROOT)}, **more)


@pytest.mark.parametrize("number", STOPS)
@pytest.mark.parametrize("module", ["nas.cli", "rich.console", "nas.terminal.tables"])
def test_a_signal_during_imports_prints_nothing(tmp_path, module, number):
    """Before the command line is there, and in the middle of a command's own imports."""
    code = f"""
import os, sys
class Finder:
    def find_spec(self, name, *rest):
        if name == {module!r}:
            os.kill(os.getpid(), {int(number)})
sys.meta_path.insert(0, Finder())
sys.argv = ["nas", "settings"]
from nas.__main__ import main
sys.exit(main())
"""
    done = program(code, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_second_signal_while_the_first_is_handled_prints_nothing(tmp_path):
    code = """
import os, signal, sys
class Finder:
    def find_spec(self, name, *rest):
        if name == "nas.terminal.tables":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from nas import cli
def close(*_):
    os.kill(os.getpid(), signal.SIGTERM)
cli.Log.close = close
sys.argv = ["nas", "settings"]
sys.exit(cli.main())
"""
    done = program(code, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("number", STOPS)
def test_any_command_stops_with_130_and_an_entry_in_the_log(here, finished, capsys, monkeypatch, number):
    finished()
    before = signal.getsignal(number)
    monkeypatch.setattr(evaluation, "run", lambda *_: os.kill(os.getpid(), number))
    assert nas(capsys, "evaluate", "a")[::2] == (130, "")
    assert "nas evaluate a | stopped after" in Path("runs/a/log.txt").read_text("utf-8").splitlines()[-1]
    assert signal.getsignal(number) is before


def test_what_fails_because_of_a_signal_is_a_stop(here, capsys, monkeypatch):
    def swallowed(*_):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt:
            raise ImportError("a library that was half loaded") from None

    monkeypatch.setattr(evaluation, "run", swallowed)
    assert nas(capsys, "evaluate", "a")[::2] == (130, "")


def test_an_export_that_is_stopped_leaves_nothing_half_written(here, finished, capsys, monkeypatch):
    finished()
    subnet = write_extracted("a")
    argv = ("export", str(subnet.path), "--format", "torch-export")
    with monkeypatch.context() as patch:
        patch.setattr(export_command, "_compared", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        assert nas(capsys, *argv)[0] == 130
    assert not (subnet.path / "exports").exists() and not list(Path("runs").rglob(".*.*-*-*"))
    assert nas(capsys, *argv)[0] == 0
    assert [path.name for path in (subnet.path / "exports").iterdir()] == ["torch-export"]


def test_an_ignored_signal_stays_ignored(tmp_path):
    """As nohup asks for."""
    code = """
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_IGN)
from nas.cli._process import stoppable
from nas.terminal.progress import interruptible
with stoppable() as stops, interruptible() as stop:
    os.kill(os.getpid(), signal.SIGHUP)
    assert not stop() and not stops.requested
"""
    done = program(code, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("closed", "argv", "code"), [
    (">&-", "spaces", 0), ("2>&-", "spaces", 0), ("<&-", "spaces", 0), ("<&- >&- 2>&-", "spaces", 0),
    (">&-", "--help", 0), ("2>&-", "show nowhere", 2), (">&- 2>&-", "show nowhere", 2), ("<&-", "init p.yaml", 0),
    ("</dev/null", "init p.yaml", 0), ("<&-", "init --yes p.yaml", 0), (">/dev/full", "spaces", 2),
])
def test_closed_standard_streams_are_no_internal_error(tmp_path, closed, argv, code):
    line = f'exec "{sys.executable}" -m nas {argv} {closed}'
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, cwd=tmp_path, timeout=120,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr
    assert len(done.stderr.split()) > 0 if code == 2 and "2>" not in closed else done.stderr == ""
    assert len(done.stderr.strip().splitlines()) <= 1, done.stderr
    assert not (tmp_path / "runs").exists()


def test_an_answer_that_does_not_come_is_one_sentence(here, capsys, monkeypatch):
    def ask(*_):
        raise EOFError

    monkeypatch.setattr(evaluation, "run", ask)
    code, _, err = nas(capsys, "evaluate", "a")
    assert code == 2 and err.strip().startswith("nas: standard input ended before the answer")


def test_modules_in_the_working_directory_are_not_imported(tmp_path):
    for name in ("typer", "json", "rich", "yaml", "importlib", "multiprocessing", "pickle"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} was planted')\n", "utf-8")
    done = subprocess.run([sys.executable, "-m", "nas", "spaces"], cwd=tmp_path, capture_output=True, text=True,
                          timeout=120, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert (done.returncode, done.stderr) == (0, "")
    code = ("import sys; sys.path[:1] = []\nfrom nas.core.timing.fresh import FreshPool\n"
            "with FreshPool(1) as pool: print(pool.submit(abs, -3).result())")
    done = program(code, cwd=tmp_path)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "3", "")
