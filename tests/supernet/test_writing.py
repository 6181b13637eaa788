"""Files and folders that are whole or not there."""

import pytest

from supernet.writing import whole


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
    monkeypatch.setattr("supernet.writing._flush", lambda path: flushed.append((path, (tmp_path / "folder").exists())))
    with whole(tmp_path / "folder") as temporary:
        temporary.mkdir()
        (temporary / "file").write_text("there")
    assert flushed == [(temporary / "file", False), (temporary, False), (tmp_path, True)]
