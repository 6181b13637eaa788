"""The adb transport on a stand-in for adb: a folder that pretends to be a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from hardware_profiles.transports import adb
from search_spaces.errors import InputError
from tests.hardware_profiles.fixtures.devices import (  # noqa: F401 - fixtures
    NASTY,
    make_job,
    phone_fixture,
    phone_settings,
    script,
    standin,
    transport,
)

SHORT = {"least_rounds": 1, "most_rounds": 1}


@pytest.mark.parametrize("how", ["print", "log"])
def test_the_time_is_found_in_the_output_and_in_the_log(how: str, phone: Path, tmp_path: Path) -> None:
    (phone / "how").write_text(how)
    lines: list[dict[str, Any]] = []
    transport("adb", **phone_settings(phone)).run(make_job(tmp_path / "job", protocol=SHORT), lines.append)
    assert lines[0]["machine"]["system"] == "Android ro.build.version.release"
    assert dict(lines[1]["seconds"]) == pytest.approx({"reference": 0.001, "short": 0.002, "long": 0.004}, rel=0.01)


def test_what_is_there_is_not_pushed_again(phone: Path, tmp_path: Path) -> None:
    made = transport("adb", **phone_settings(phone))
    for _ in range(2):
        made.run(make_job(tmp_path / "job", protocol=SHORT), lambda line: None)
    pushed = [line for line in (phone / "calls").read_text().splitlines() if "'push'" in line]
    assert len(pushed) == 6  # a runner, three models, two inputs
    assert not list((phone / "store").glob("*.part"))


@pytest.mark.parametrize("devices, serial, says", [
    ("", None, "no Android device is connected; plug one in"),
    ("ABC\tunauthorized\n", None, "ABC does not trust this machine; unlock its screen"),
    ("ABC\toffline\n", None, "ABC is offline; plug it in again"),
    ("ABC\tno permissions (user in plugdev group; are your udev rules wrong?)\n", None, "this user may not use ABC"),
    ("????????????\tno permissions\n", None, "this user may not use"),
    ("ABC\trecovery\n", None, "ABC is in the state 'recovery'"),
    ("ABC\tdevice\nDEF\tdevice\n", None, "several devices are connected; set transport.serial to one of ABC, DEF"),
    ("ABC\tdevice\n", "XYZ", "no device XYZ is connected; allowed: ABC"),
])
def test_each_state_of_devices_has_its_sentence(devices: str, serial: str | None, says: str, phone: Path) -> None:
    (phone / "devices").write_text(devices)
    with pytest.raises(InputError, match=f"^a phone: .*{says}"):
        transport("adb", "a phone", **phone_settings(phone, serial=serial)).check()


def test_one_of_several_devices(phone: Path, tmp_path: Path) -> None:
    (phone / "devices").write_text("DEF\tunauthorized\nABC\tdevice\n")
    made = transport("adb", **phone_settings(phone, serial="ABC"))
    made.run(make_job(tmp_path / "job", protocol=SHORT), lambda line: None)
    calls = (phone / "calls").read_text().splitlines()[1:]
    assert all(line.startswith("['-s', 'ABC', ") for line in calls)


@pytest.mark.parametrize("how, says", [
    ("Segmentation fault", "printed no time for .*, but 'Segmentation fault'; set transport.pattern"),
    ("say nan", "printed 'executed successfully 20 time.s. in nan ms' for .*; a time is a finite number above 0"),
    ("say -3.5", "in -3.5 ms' for"), ("say 0.0", "in 0.0 ms' for"), ("say inf", "in inf ms' for"),
    ("say twelve", "in twelve ms' for"), ("fail", "ended with code 1: error: Failed to parse model file"),
])
def test_a_runner_that_prints_nonsense(how: str, says: str, phone: Path, tmp_path: Path) -> None:
    (phone / "how").write_text(how)
    lines: list[dict[str, Any]] = []
    with pytest.raises(InputError, match=says) as caught:
        transport("adb", **phone_settings(phone)).run(make_job(tmp_path / "job"), lines.append)
    assert "\n" not in str(caught.value) and len(lines) == 1


def test_a_runner_that_prints_one_number_for_everything(phone: Path, tmp_path: Path) -> None:
    (phone / "how").write_text("say 5.0")
    with pytest.raises(InputError, match="all 3 workloads take 0.25 ms, although they differ"):
        transport("adb", **phone_settings(phone)).run(make_job(tmp_path / "job"), lambda line: None)


def test_a_phone_that_is_pulled_out(phone: Path, tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = []

    def sink(line: dict[str, Any]) -> None:
        lines.append(line)
        if line.get("round") == 1:
            (phone / "gone").touch()

    with pytest.raises(InputError, match="connection was lost .*'ABC' not found.*finished rounds are kept; rerun the "
                                         "same"):
        transport("adb", **phone_settings(phone)).run(make_job(tmp_path / "job"), sink)
    assert [line["round"] for line in lines if "seconds" in line] == [0, 1]


def test_what_is_missing_here(phone: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="runner nowhere/runner not found; build ExecuTorch's executor_runner"):
        transport("adb", **phone_settings(phone, runner="nowhere/runner")).check()
    with pytest.raises(InputError, match="/nowhere/adb not found; install Android's platform tools"):
        transport("adb", **phone_settings(phone, adb="/nowhere/adb")).check()
    script(tmp_path / "adb", "sleep 5")
    with pytest.raises(InputError, match="no answer for 1 s"):
        transport("adb", **phone_settings(phone, adb=str(tmp_path / "adb"), timeout_s=1)).check()


def test_names_never_reach_a_shell(phone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = str(phone / NASTY.replace("/", "").replace(",", ""))
    (phone / "runner").rename(tmp_path / NASTY)
    command = [*adb.AdbSettings().command, f"--label={NASTY} {{x}}"]
    settings = phone_settings(phone, folder=folder, runner=str(tmp_path / NASTY), command=command)
    made = transport("adb", NASTY, **settings)
    lines: list[dict[str, Any]] = []
    made.run(make_job(tmp_path / f"job {NASTY}", {NASTY: 0.001, f"-{NASTY}": 0.002}, protocol=SHORT), lines.append)
    assert set(dict(lines[1]["seconds"])) == {NASTY, f"-{NASTY}"}
    assert not list(tmp_path.glob("**/canary*"))


@pytest.mark.parametrize("settings, says", [
    ({"command": ["--runs={repeats}"]}, "must contain {model}"), ({"pattern": "(?P<ms>"}, "is not a regular "
                                                                                          "expression"),
    ({"pattern": r"in (\S+) ms"}, "must have one group named s, ms or us"), ({"serial": "-s x"}, "pattern"),
    ({"pattern": r"(?P<ms>\S+) (?P<us>\S+)"}, "must have one group"), ({"folder": "relative"}, "pattern"),
    ({"repeats": 0}, "greater than or equal to 1"), ({"logcat": "a b"}, "pattern"),
])
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        adb.AdbSettings(**settings)


def test_another_runner(phone: Path, tmp_path: Path) -> None:
    script(phone / "runner", 'echo "count=50 avg=1$(cat "$1" | tr -d .)"')
    lines: list[dict[str, Any]] = []
    changes = {"command": ["{model}"], "pattern": r"avg=(?P<us>\S+)", "logcat": None}
    made = transport("adb", **phone_settings(phone, **changes))
    made.run(make_job(tmp_path / "job", {"a": 1, "b": 2}, protocol=SHORT), lines.append)
    assert dict(lines[1]["seconds"]) == pytest.approx({"a": 11e-6, "b": 12e-6})


@pytest.mark.parametrize("settings", [
    {"adb": "/bin/sh"}, {"adb": "./adb"}, {"adb": "sub/adb"}, {"adb": "-adb"}, {"adb": "/a\nb/adb"},
    {"runner": "-rf"}, {"runner": "a\nb"}, {"serial": "-s"}, {"folder": "/a\nb"}, {"logcat": "-c"},
], ids=str)
def test_values_that_could_run_something_here_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match=next(iter(settings))):
        adb.AdbSettings(**settings)


def test_an_adb_that_others_can_change_is_not_run(phone: Path) -> None:
    made = transport("adb", **phone_settings(phone))
    made.check()
    (phone / "adb").chmod(0o777)
    with pytest.raises(InputError, match="phone/adb is writable by other users"):
        made.check()
    (phone / "adb").chmod(0o755)
    phone.chmod(0o777)
    with pytest.raises(InputError, match="phone/adb is writable by other users"):
        made.check()
