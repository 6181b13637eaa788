"""The ssh transport against a real server on loopback: what breaks, what is said, and what never reaches a shell."""

from __future__ import annotations

import ast
import dataclasses
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from hardware_profiles import protocol, transports
from hardware_profiles.device import Device
from hardware_profiles.transports import _remote, ssh
from hardware_profiles.transports import _ssh_client as client
from hardware_profiles.transports._base import STORED
from search_spaces.errors import InputError
from tests.hardware_profiles.fixtures.devices import (  # noqa: F401 - fixtures
    NASTY,
    Server,
    free_port,
    make_job,
    make_key,
    script,
    server_fixture,
    soon,
    standin,
    transport,
    working_in,
)

LONG = {"most_rounds": 1000, "least_rounds": 1000}


def test_a_cut_connection_keeps_the_finished_rounds_and_the_next_call_goes_on(server: Server, tmp_path: Path) -> None:
    job, lines = make_job(tmp_path / "job", protocol=LONG), []
    made = transport("ssh", **server.settings(folder=str(tmp_path / "store")))

    def sink(line: dict[str, Any]) -> None:
        lines.append(line)
        if line.get("round") == 2:
            server.cut()

    with pytest.raises(InputError, match="a device: the connection was lost .*finished rounds are kept; rerun the "
                                         "same"):
        made.run(job, sink)
    assert soon(lambda: not working_in(tmp_path)), "the device still measures for nobody"
    rounds = [line for line in lines if "seconds" in line]
    assert [line["round"] for line in rounds] == list(range(len(rounds))) and len(rounds) >= 3
    after: list[dict[str, Any]] = []
    n = len(rounds) + 2
    protocol = job.protocol._replace(least_rounds=n, most_rounds=n)
    made.run(dataclasses.replace(job, before=rounds, protocol=protocol), after.append)
    assert [line["round"] for line in after if "seconds" in line] == [n - 2, n - 1]


def test_a_file_is_sent_once(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[list[str]] = []
    real = ssh.archive
    monkeypatch.setattr(ssh, "archive", lambda *given: sent.append(given[2]) or real(*given))
    made = transport("ssh", **server.settings(folder=str(tmp_path / "store")))
    job = make_job(tmp_path / "job")
    made.run(job, lambda line: None)
    before = ({"round": 0, "seconds": [["short", 1.0]], "spent_s": 1.0},)
    made.run(dataclasses.replace(job, before=before), lambda line: None)
    assert len(sent[0]) == 6 and len(sent[1]) == 1  # three models, job.json, measure.py, runtime.py; then job.json


def test_the_job_ends_with_the_program_that_started_it(server: Server, tmp_path: Path) -> None:
    make_job(tmp_path / "job")
    code = ("import sys, json\nfrom pathlib import Path\nfrom hardware_profiles import runtimes\n"
            "from tests.hardware_profiles.fixtures.devices import make_job, transport, STANDINS\n"
            "runtimes.get = STANDINS.get\nsettings = json.loads(sys.argv[1])\n"
            "job = make_job(Path(sys.argv[2]), protocol=dict(most_rounds=10**6, least_rounds=10**6))\n"
            "transport('ssh', **settings).run(job, lambda line: print(line, flush=True))\n")
    settings = json.dumps(server.settings(folder=str(tmp_path / "store")))
    with subprocess.Popen([sys.executable, "-c", code, settings, str(tmp_path / "job")], stdout=subprocess.PIPE,
                          cwd=Path(__file__).parents[2]) as process:
        assert process.stdout is not None and process.stdout.readline() and process.stdout.readline()
        assert working_in(tmp_path / "store")
        process.send_signal(signal.SIGKILL)
    assert soon(lambda: not working_in(tmp_path / "store"))


def test_a_silent_connection_ends_the_job(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", protocol=LONG)
    job.write()
    start = time.monotonic()
    with subprocess.Popen([sys.executable, "measure.py", ".", "--lease", "1"], cwd=job.folder, stdin=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        assert process.wait(20) == protocol.LEASE_ENDED  # its input is open, but nothing comes
    assert time.monotonic() - start >= 1


def test_one_measurement_at_a_time(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "WAIT_S", 0.0)
    made = transport("ssh", **server.settings(folder=str(tmp_path / "store")))
    job = make_job(tmp_path / "job", protocol=LONG)

    def sink(line: dict[str, Any]) -> None:
        if line.get("round") == 1:
            made.run(make_job(tmp_path / "other"), lambda line: None)

    with pytest.raises(InputError, match="another measurement is running there; wait"):
        made.run(job, sink)


def test_names_never_reach_a_shell(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    named = NASTY.replace("/", "")
    script(tmp_path / named, f'echo "a login script talks"; exec "{sys.executable}" "$@"')
    made = transport("ssh", named, **server.settings(folder=str(tmp_path / f"-{named}"), python=str(tmp_path / named)))
    lines: list[dict[str, Any]] = []
    made.check("standin")
    made.run(make_job(tmp_path / f"job {named}", {named: 0.001, f"-o{named}": 0.002}), lines.append)
    assert {name for line in lines for name, _ in line.get("seconds", ())} == {named, f"-o{named}"}
    assert not [*tmp_path.glob("**/canary*"), *Path.home().glob("canary*"), *server.folder.glob("canary*")]


REFUSED = {
    "refused": (lambda server, tmp: {"port": free_port()}, "refused the connection; check that its ssh server runs"),
    "a wrong key": (lambda server, tmp: {"identity": _other_key(tmp)}, r"did not accept the key .*publickey.*identity"),
    "no key": (lambda server, tmp: {"identity": "nowhere/key"}, "key file nowhere/key not found; set"),
    "no name": (lambda server, tmp: {"host": "no-such-host.invalid"}, "unknown host no-such-host.invalid"),
    "no Python": (lambda server, tmp: {"python": "nowhere/python"}, "no Python 'nowhere/python' on .*python"),
    "an old Python": (lambda server, tmp: {"python": _old_python(tmp)}, "is Python 3.6; 3.9 or newer is needed"),
    "a broken Python": (lambda server, tmp: {"python": "false"}, "false on .* ended with code 1: ssh printed nothing"),
    "an unknown host": (lambda server, tmp: {"options": _known(server, "/dev/null")}, "host key .* is unknown"),
    "a changed host": (lambda server, tmp: {"options": _known(server, _changed(server, tmp))}, "a different host key "
                                                                                               "than"),
    "a bad option": (lambda server, tmp: {"options": {"Ciphers": "no-such"}}, "rejects a setting .*no-such"),
}


def _other_key(tmp: Path) -> str:
    make_key(tmp / "other")
    return str(tmp / "other")


def _old_python(tmp: Path) -> str:
    script(tmp / "old", f"echo '{client.OLD_PYTHON} 3.6' >&2; exit 1")
    return str(tmp / "old")


def _known(server: Server, path: str) -> dict[str, Any]:
    return {**server.settings()["options"], "UserKnownHostsFile": path}


def _changed(server: Server, tmp: Path) -> str:
    (tmp / "known").write_text(f"[127.0.0.1]:{server.port} {make_key(tmp / 'changed')}")
    return str(tmp / "known")


@pytest.mark.parametrize("what", REFUSED)
def test_each_failure_has_its_sentence(what: str, server: Server, tmp_path: Path) -> None:
    changes, sentence = REFUSED[what]
    made = transport("ssh", "pi 4", **server.settings(**changes(server, tmp_path)))
    with pytest.raises(InputError, match=f"^pi 4: .*{sentence}") as caught:
        made.check("standin")
    assert "\n" not in str(caught.value)


def test_a_host_that_does_not_answer(server: Server) -> None:
    with socket.socket() as silent:  # takes the connection and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        made = transport("ssh", **server.settings(port=silent.getsockname()[1], connect_timeout=1))
        with pytest.raises(InputError, match="cannot be reached .*timed out.*check that it is on"):
            made.check()


def test_a_missing_module_is_named_with_what_installs_it(server: Server, tmp_path: Path) -> None:
    made = transport("ssh", **server.settings())
    with pytest.raises(InputError, match="no module a_module_that_is_not_there .*-m pip install a_module_that_is_not"):
        made.check("lacking")
    with pytest.raises(InputError, match="ended with code 1: .*a_module_that_is_not_there.*pip install a_module"):
        made.run(make_job(tmp_path / "job", {"a": 0.001, "b": "import"}), lambda line: None)


def test_a_job_that_is_killed_there_is_no_broken_connection(server: Server, tmp_path: Path) -> None:
    made = transport("ssh", **server.settings(folder=str(tmp_path / "store")))
    with pytest.raises(InputError, match="was killed by SIGKILL; it may have run out of memory"):
        made.run(make_job(tmp_path / "job", {"a": 0.001, "b": "kill"}), lambda line: None)


def test_a_folder_that_cannot_be_made(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    made = transport("ssh", **server.settings(folder=str(tmp_path / "file" / "store")))
    with pytest.raises(InputError, match="cannot store or run the job in .*store: .*Not a directory"):
        made.run(make_job(tmp_path / "job"), lambda line: None)


def test_without_a_client(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InputError, match="ssh not found on this machine; install the OpenSSH"):
        transport("ssh", **server.settings()).check()


@pytest.mark.parametrize("settings", [
    {"host": "-oProxyCommand=touch canary"}, {"host": "-oProxyCommand=canary"}, {"host": "a@-oProxyCommand=canary"},
    {"host": "a b"}, {"host": "a;b"}, {"host": "$(a)"}, {"host": ""}, {"host": "a\nb"}, {"host": "a@"},
    {"host": "a", "python": "-c"}, {"host": "a", "python": ""}, {"host": "a", "folder": "a\nb"},
    {"host": "a", "options": {"ProxyCommand": "touch canary"}}, {"host": "a", "options": {"proxycommand": "a"}},
    {"host": "a", "options": {"LocalCommand": "a"}}, {"host": "a", "options": {"A B": "c"}},
    {"host": "a", "options": {"Port": "1\n2"}}, {"host": "a", "options": {"BatchMode": "no"}},
    {"host": "a", "options": {"SmartcardDevice": "canary.so"}}, {"host": "a", "options": {"PKCS11Provider": "a.so"}},
    {"host": "a", "options": {"SecurityKeyProvider": "a.so"}}, {"host": "a", "options": {"ControlPath": "a"}},
    {"host": "a", "options": {"SendEnv": "*"}}, {"host": "a", "options": {"ClearAllForwardings": "no"}},
    {"host": "a", "options": {"LocalForward": "1 a:1"}}, {"host": "a", "options": {"AnOptionOfTomorrow": "1"}},
    {"host": "a", "options": {"ProxyJump": "a;touch canary"}}, {"host": "a", "options": {"User": "$(touch canary)"}},
    {"host": "a", "options": {"StrictHostKeyChecking": "accept-new"}},
    {"host": "a", "options": {"HostKeyAlias": "touch canary #"}}, {"host": "a", "identity": "-oProxyCommand=a"},
    {"host": "a", "identity": "a\nb"},
], ids=str)
def test_settings_that_could_run_something_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ssh.SshSettings(**settings)


@pytest.mark.parametrize("host", ["pi4", "pi@raspberrypi.local", "user.name@10.0.0.7", "fe80::1%eth0", "a_b-c"])
def test_hosts_that_are_allowed_come_after_the_options(host: str) -> None:
    words = client.command(ssh.SshSettings(host=host, options={"Compression": True}), {"mode": "check"})
    assert words[words.index("--") + 1] == host and "Compression=yes" in words and len(words) == words.index("--") + 3
    assert words.index("BatchMode=yes") < words.index("Compression=yes")


def test_what_is_refused_is_named_with_the_place_it_belongs_to() -> None:
    with pytest.raises(ValidationError, match=r"'SmartcardDevice' is not allowed here; set it in ~/.ssh/config"):
        ssh.SshSettings(host="a", options={"SmartcardDevice": "a.so"})


def test_a_file_of_known_hosts_that_a_device_names_is_not_written() -> None:
    words = client.command(ssh.SshSettings(host="a", options={"userknownhostsfile": "~/.bashrc"}), {"mode": "check"})
    at = words.index("userknownhostsfile=~/.bashrc")  # of an option that comes twice, ssh takes the first
    assert {"StrictHostKeyChecking=yes", "UpdateHostKeys=no"} <= set(words[:at])


def test_a_stored_profile_opens_and_is_refused_when_it_is_used() -> None:
    transport = {"kind": "ssh", "host": "a", "options": {"SmartcardDevice": "a.so"}}
    data = {"schema_version": 1, "name": "old", "kind": "cpu", "runtime": "onnx-runtime", "transport": transport}
    with pytest.raises(ValidationError, match="SmartcardDevice"):
        Device(**data)
    stored = Device.model_validate(data, context=STORED)
    with pytest.raises(InputError, match="old: transport.options: 'SmartcardDevice' is not allowed here"):
        transports.make(stored.transport, "old")


PLANTED = ("argparse", "json", "contextlib", "__future__", "sitecustomize", "base64", "runpy")


def plant(folder: Path, canary: Path) -> None:
    """Modules that leave their names behind when they are imported."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PLANTED:
        (folder / f"{name}.py").write_text(f"open({str(canary)!r}, 'a').write('{name} ')\n", "utf-8")


@pytest.mark.parametrize("kind", ["local", "ssh", "by hand"])
def test_modules_beside_a_job_are_not_imported(kind: str, request: pytest.FixtureRequest, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can write to a shared folder must not run code as the one who profiles in it."""
    canary, job, lines = tmp_path / "canary", make_job(tmp_path / "job"), []
    plant(job.folder, canary)
    monkeypatch.setenv("PYTHONPATH", os.pathsep + os.environ.get("PYTHONPATH", ""))  # an empty one: where Python is
    if kind == "local":
        (job.folder / "runtime.py").write_text("raise SystemExit('planted')\n", "utf-8")
        transport("local").run(job, lines.append)
    elif kind == "ssh":
        server, store = request.getfixturevalue("server"), tmp_path / "store"
        made = transport("ssh", **server.settings(folder=str(store)))
        plant(store, canary)
        put = ssh.SshTransport._send

        def planted(self: Any, job: Any) -> None:
            put(self, job)
            plant(next((store / "jobs").iterdir()), canary)

        monkeypatch.setattr(ssh.SshTransport, "_send", planted)
        made.run(job, lines.append)
    else:
        job.write("results.jsonl")
        monkeypatch.delenv("PYTHONPATH")
        subprocess.run([sys.executable, "measure.py", "."], cwd=job.folder, check=True, capture_output=True)
        lines += [json.loads(line) for line in (job.folder / "results.jsonl").read_text("utf-8").splitlines()]
    assert [line["round"] for line in lines if "seconds" in line] == [0, 1, 2]
    assert not canary.exists(), canary.read_text()


@pytest.mark.parametrize("module", [protocol, _remote])
def test_what_runs_on_devices_needs_python_3_9_and_its_library_only(module: Any) -> None:
    tree = ast.parse(Path(module.__file__).read_text("utf-8"), feature_version=(3, 9))
    names = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= set(sys.stdlib_module_names)


def test_files_nobody_uses_are_deleted_after_a_month(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    for name in ("old", "used"):
        path = tmp_path / "blobs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
        os.utime(path, (1e9, 1e9))
    monkeypatch.setattr(sys, "stdin", io.StringIO('["used", "new"]'))
    _remote.main({"mode": "need", "folder": str(tmp_path)})
    assert '{"need": ["new"]}' in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "blobs").iterdir()] == ["used"]
