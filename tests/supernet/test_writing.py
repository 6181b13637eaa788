"""Files and folders that are whole or not there."""

import os
import stat
import subprocess
import sys
import tempfile

import pytest

from search_spaces.files import writing
from search_spaces.files.writing import sweep, whole


def test_a_file_replaces_the_one_before(tmp_path):
    path = tmp_path / "file"
    for text in ("old", "new"):
        with whole(path) as temporary:
            temporary.write_text(text)
            assert temporary.parent == tmp_path and not (path.exists() and path.read_text() == text)
        assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_appears_with_all_its_files(tmp_path):
    with whole(tmp_path / "folder") as temporary:
        (temporary / "inner").mkdir(parents=True)
        (temporary / "inner" / "file").write_text("there")
    assert (tmp_path / "folder/inner/file").read_text() == "there"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("make", [lambda path: path.write_text("half"), lambda path: path.mkdir()])
def test_an_error_leaves_nothing_but_what_was_there(tmp_path, error, make):
    (tmp_path / "file").write_text("old")
    with pytest.raises(error), whole(tmp_path / "file") as temporary:
        make(temporary)
        raise error
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_everything_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr("search_spaces.files.writing._flush",
                        lambda path: flushed.append((path, (tmp_path / "folder").exists())))
    with whole(tmp_path / "folder") as temporary:
        temporary.mkdir()
        (temporary / "file").write_text("there")
    assert flushed == [(temporary / "file", False), (temporary, False), (tmp_path, True)]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_a_file_that_a_library_writes_privately_has_the_mode_of_others(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        with whole(tmp_path / "folder") as temporary:
            temporary.mkdir()
            handle, name = tempfile.mkstemp(dir=temporary)  # as safetensors does
            os.close(handle)
        with whole(tmp_path / "file") as temporary:
            handle, name = tempfile.mkstemp(dir=tmp_path)
            os.close(handle)
            os.rename(name, temporary)
    finally:
        os.umask(before)
    (inner,) = (tmp_path / "folder").iterdir()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (inner, tmp_path / "file")] == [mode, mode]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def killed(path):
    """Leave what a process leaves that is killed while it writes a file."""
    code = ("import os, sys, signal; from pathlib import Path; from search_spaces.files.writing import whole\n"
            "with whole(Path(sys.argv[1])) as temporary:\n    temporary.mkdir(); (temporary / 'half').touch()\n"
            "    os.kill(os.getpid(), signal.SIGKILL)")
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == -9


def test_what_a_killed_process_left_is_deleted_with_the_next_write(tmp_path):
    killed(tmp_path / "a[b]")
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".a[b].")
    with whole(tmp_path / "a[b]") as temporary:
        temporary.write_text("")
    assert [path.name for path in tmp_path.iterdir()] == ["a[b]"]


def test_a_sweep_spares_what_is_being_written_and_what_is_not_ours(tmp_path, monkeypatch):
    inner = tmp_path / "one" / "two"
    inner.mkdir(parents=True)
    killed(inner / "gone")
    others = f".theirs.{writing._machine()}-{os.getppid()}-01234567"  # a process that is there
    elsewhere = ".far.00000000-1-01234567"
    for name in (others, elsewhere, ".hidden", ".name.txt", ".new.01234567", ".old.01234567"):
        (inner / name).touch()
    os.utime(inner / ".old.01234567", (0, 0))
    with whole(inner / "mine") as temporary:
        temporary.touch()
        sweep(tmp_path)
    assert {path.name for path in inner.iterdir()} == {others, elsewhere, ".hidden", ".name.txt", ".new.01234567",
                                                       "mine"}
