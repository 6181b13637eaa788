"""The command line: what it prints, its exit codes, and how it refuses bad input."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nas import cli
from nas.cli import _app
from nas.core import published, resolve
from nas.core.costs import count
from search_spaces import load_space, shipped_spaces
from search_spaces.published import catalogue


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")


def run(capsys, *argv):
    code = cli.main(list(argv))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(capsys, *argv):
    """The sentences on stderr of a command that has to refuse its input."""
    code, out, err = run(capsys, *argv)
    assert code == 2
    assert out == ""
    assert "Traceback" not in err
    assert all(line.startswith("nas: ") for line in err.splitlines())
    return err


COMMANDS = [each.name or each.callback.__name__ for each in _app.app.registered_commands]


def test_help_lists_every_command_on_one_screen(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert len(out.splitlines()) <= len(COMMANDS) + 19  # frames and options
    listed = [line.split()[1] for line in out.splitlines() if line.startswith("│ ")]
    assert [name for name in listed if name in COMMANDS] == COMMANDS
    assert "--install-completion" in listed


def test_no_command_is_help(capsys):
    code, out, err = run(capsys)
    assert (code, err) == (0, "")
    assert "Usage: nas" in out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example(capsys, command):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    assert f"Example: nas {command}" in " ".join(out.split())


def test_spaces(capsys):
    code, out, _ = run(capsys, "spaces")
    assert code == 0
    assert all(name in out for name in shipped_spaces())
    code, out, _ = run(capsys, "spaces", "--json")
    rows = json.loads(out)["spaces"]
    assert code == 0
    assert [row["name"] for row in rows] == shipped_spaces()
    tiny = next(row for row in rows if row["name"] == "lm-tiny")
    assert (tiny["family"], tiny["genes"]) == ("lm", len(load_space("lm-tiny").genes))
    assert tiny["size"] == load_space("lm-tiny").size()


def test_show_a_space_sums_it_up_and_draws_both_ends(capsys):
    code, out, _ = run(capsys, "show", "lm-tiny")
    assert code == 0
    for text in ("decoder.transformer.ffn.ffn.inner", "1x, 2x, 160", "lm-tiny, largest", "lm-tiny, smallest"):
        assert text in out


def test_show_draws_slots_shares_and_totals(capsys, tmp_path):
    space = load_space("lm-tiny")
    arch = space.decode({**space.encode(space.largest()), "decoder.depth": 2, "decoder.sharing": "attention"})
    (tmp_path / "arch.json").write_text(arch.to_json(), "utf-8")
    code, picture, _ = run(capsys, "show", str(tmp_path / "arch.json"))
    assert code == 0
    assert "decoder: 2 layers; 2 mixers share the weights of 1; unused slots: 1" in picture
    assert picture.count("0 shared") == 1
    assert f"{count(arch).params:,}" in picture
    assert f"{count(arch).macs:,}" in picture


@pytest.mark.parametrize("option", [("--sample", "3"), ("--smallest",), ("--largest",)])
def test_show_one_architecture_of_a_space(capsys, option):
    code, out, _ = run(capsys, "show", "lm-tiny", *option, "--seq-len", "16")
    assert code == 0
    assert out.count("total") == 1
    assert "16 tokens" in out


def test_show_seq2seq_has_cross_attention_and_a_shared_embedding(capsys):
    code, out, _ = run(capsys, "show", "seq2seq-small", "--smallest", "--seq-len", "8", "--target-len", "4")
    assert code == 0
    assert "cross_attention" in out
    assert "8 -> 4 tokens" in out


def test_a_narrow_terminal_gets_whole_words(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run(capsys, "show", "seq2seq-small", "--largest", "--seq-len", "8")
    assert code == 0
    assert "cross_attention" in out and "\u2026" not in out
    assert max(map(len, out.splitlines())) <= 80


def test_count_an_architecture(capsys):
    code, out, _ = run(capsys, "count", "bert-base", "--seq-len", "8", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["name"] == "bert-base"
    assert data["key"] == catalogue.load_published("bert-base").key
    assert data["weight_bytes"] == 4 * data["params"]
    code, out, _ = run(capsys, "count", "bert-base", "--seq-len", "8")
    assert code == 0
    assert f"{data['params']:,}" in out


def test_count_a_space(capsys):
    code, out, _ = run(capsys, "count", "lm-tiny", "--seq-len", "8", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["smallest"]["params"] < data["median"]["params"] < data["largest"]["params"]
    assert data["samples"] == 101
    assert run(capsys, "count", "lm-tiny", "--seq-len", "8", "--json")[1] == out


def test_architectures_are_read_from_a_file_or_folder(capsys, tmp_path):
    arch = load_space("lm-tiny").smallest()
    (tmp_path / "architecture.json").write_text(arch.to_json(), "utf-8")
    for where in (tmp_path, tmp_path / "architecture.json"):
        code, out, _ = run(capsys, "count", str(where), "--json")
        assert code == 0
        assert json.loads(out)["key"] == arch.key


def test_the_default_length_never_exceeds_the_context(capsys, tmp_path):
    text = (Path(resolve.__file__).parents[2] / "search_spaces" / "lm-tiny.yaml").read_text("utf-8")
    path = tmp_path / "short.yaml"
    path.write_text(text.replace("context: 128", "context: 20"), "utf-8")
    code, out, _ = run(capsys, "show", str(path), "--smallest")
    assert code == 0
    assert "20 tokens" in out


@pytest.mark.parametrize(("argv", "says"), [
    (("show", "lm-tinny"), "did you mean lm-tiny"),
    (("count", "bert-bas"), "bert-base"),
    (("show", "no-such-thing-at-all"), "lm-tiny"),
    (("count", "nowhere.yaml"), "nowhere.yaml"),
    (("count", "nowhere.json"), "does not exist"),
    (("count", "lm-tiny", "--seq-len", "-3"), "-3"),
    (("count", "lm-tiny", "--seq-len", "0"), "allowed: 1 to 128"),
    (("show", "lm-tiny", "--seq-len", "129"), "the context of lm-tiny"),
    (("count", "lm-tiny", "--seq-len", "many"), "--seq-len"),
    (("count", "lm-tiny", "--target-len", "4"), "seq2seq"),
    (("count", "bert-base", "--convention", "roman"), "roman"),
    (("show", "lm-tiny", "--smallest", "--largest"), "cannot be combined"),
    (("show", "bert-base", "--sample", "1"), "--sample requires a space"),
    (("count",), "SPACE_OR_ARCH"),
    (("spaces", "--yaml"), "--yaml"),
    (("profile",), "profile"),
])
def test_bad_input_is_refused_in_one_sentence(capsys, argv, says):
    err = refused(capsys, *argv)
    assert len(err.splitlines()) == 1
    assert says in err


@pytest.mark.parametrize(("name", "content", "says"), [
    ("bad.yaml", "family: [lm\nwidth: 3", "not valid YAML at line 2"),
    ("odd.yaml", "- 1\n- 2\n", "table of keys"),
    ("cut.json", '{"family": "lm", "width":', "not valid JSON"),
    ("list.json", "[1, 2]", "JSON object"),
    ("notes.txt", "hello", ".yaml"),
])
def test_bad_files_are_refused(capsys, tmp_path, name, content, says):
    path = tmp_path / name
    path.write_text(content, "utf-8")
    err = refused(capsys, "show", str(path))
    assert len(err.splitlines()) == 1
    assert says in err
    assert name in err


def test_every_fault_of_a_space_file_has_its_sentence(capsys, tmp_path):
    text = (Path(resolve.__file__).parents[2] / "search_spaces" / "lm-tiny.yaml").read_text("utf-8")
    path = tmp_path / "two.yaml"
    path.write_text(text.replace("context: 128", "context: none").replace("family: lm", "family: lmm"), "utf-8")
    assert len(refused(capsys, "show", str(path)).splitlines()) == 2


def test_published_prints_figures_beside_ours(capsys, monkeypatch):
    rows = [published.check_number(number) for number in catalogue.numbers()[:3]]
    monkeypatch.setattr(published, "check_published", lambda: rows)
    code, out, _ = run(capsys, "published", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["results"] == {"pass": 3}
    assert [figure["model"] for figure in data["figures"]] == [row.number.model for row in rows]
    code, out, _ = run(capsys, "published")
    assert code == 0
    assert "3 figures: 3 pass, 0 fail, 0 info" in out


@pytest.mark.parametrize("columns", ["80", "100", "120", "160"])
def test_published_shows_names_and_both_figures_whole_at_every_width(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    rows = [published.check_number(number) for number in catalogue.numbers()[:3]]
    monkeypatch.setattr(published, "check_published", lambda: rows)
    _, out, _ = run(capsys, "published")
    head = out.splitlines()[0].split()
    assert {"architecture", "published", "ours", "result"} <= set(head)
    words = out.split()
    for row in rows:
        assert row.number.architecture in words and f"{row.ours:.4g}" in words and f"{row.number.value:g}" in words


def test_a_missed_published_number_is_exit_code_1(capsys, monkeypatch):
    number = catalogue.numbers()[0]
    monkeypatch.setattr(published, "check_published", lambda: [published.Row(number, 2 * number.value, 1.0, "fail")])
    code, out, _ = run(capsys, "published")
    assert code == 1
    assert "+100.00 %" in out
    assert json.loads(run(capsys, "published", "--json")[1])["results"] == {"fail": 1}


def test_ctrl_c_is_130(capsys, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(resolve, "resolve", interrupt)
    assert run(capsys, "show", "lm-tiny")[0] == 130


def nas(*argv, **kwargs):
    command = [sys.executable, "-c", "import sys; from nas.cli import main; sys.exit(main())", *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **kwargs)


def test_help_needs_no_torch():
    code = "import sys, nas.cli; nas.cli.main(['--help']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60).returncode == 0


def test_json_is_all_there_is_on_stdout_and_ascii_terminals_work():
    done = nas("count", "bert-base", "--seq-len", "4", "--json", env={**os.environ, "PYTHONWARNINGS": "default"})
    assert done.returncode == 0
    assert json.loads(done.stdout)["name"] == "bert-base"
    done = nas("show", "lm-tiny", "--smallest", env={**os.environ, "PYTHONIOENCODING": "ascii", "NO_COLOR": "1"})
    assert done.returncode == 0, done.stderr
    assert "##" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_reader_that_leaves_early_is_no_error():
    command = f"{sys.executable} -c 'from nas.cli import main; raise SystemExit(main())' show lm-tiny | head -n 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_blocks_lists_every_kind_with_its_dims(capsys):
    code, out, _ = run(capsys, "blocks", "--json")
    data = {block["kind"]: block for block in json.loads(out)["blocks"]}
    assert code == 0
    assert data["lsra"]["role"] == "mixer"
    assert [dim["name"] for dim in data["ffn"]["dims"]] == ["inner", "activation", "gated"]
    says = refused(capsys, "blocks", "atention")
    assert "unknown block kind; installed: " in says and " attention," in says


def test_names_no_file_can_have_and_a_full_disk_are_told(capsys, monkeypatch):
    assert "File name too long" in refused(capsys, "show", "x" * 300)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nas.cli.architectures.show_result", full)
    assert "No space left on device" in refused(capsys, "spaces")
