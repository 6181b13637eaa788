"""A bundle: carried to a device by hand, interrupted there, and brought back."""

from __future__ import annotations

import dataclasses
import json
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hardware_profiles.transports._base import Job, Waiting
from search_spaces.errors import InputError
from tests.hardware_profiles.fixtures.devices import NASTY, make_job, standin, transport  # noqa: F401 - fixtures


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def unpacked(job: Job, name: str = "a device") -> Path:
    made = transport("bundle", name)
    with pytest.raises(Waiting):
        made.run(job, lambda line: None)
    with zipfile.ZipFile(made.file) as bundle:  # type: ignore[attr-defined]
        bundle.extractall("device")
    (folder,) = Path("device").iterdir()
    return folder


def bring(folder: Path, job: Job, name: str = "a device") -> Path:
    """Take the results of a device to where they are looked for."""
    path: Path = transport("bundle", name).results(job)  # type: ignore[attr-defined]
    return (folder / path.name).rename(path)


def measured(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "measure.py", "."], cwd=folder, capture_output=True, text=True)


def test_the_first_call_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Waiting) as caught:
        transport("bundle").run(make_job(tmp_path / "job"), lambda line: None)
    says = str(caught.value)
    assert says.startswith("a device: carry a-device.zip to the device") and "python3 measure.py ." in says
    assert re.search(r"copy its (a-device-\w{8}.results.jsonl) to \1, and run the same", says)
    assert "\n" not in says
    with zipfile.ZipFile("a-device.zip") as bundle:
        names = {name.removeprefix("a-device/") for name in bundle.namelist()}
        assert "about 1 minutes" in bundle.read("a-device/README.txt").decode()
    models = {f"models/m{i}.txt" for i in range(3)}
    assert names == {"README.txt", "job.json", "measure.py", "runtime.py", *models}


def test_interrupted_on_the_device_it_goes_on(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", protocol={"least_rounds": 200, "most_rounds": 200})
    folder = unpacked(job)
    command = [sys.executable, "measure.py", "."]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:  # as of a shell
        assert process.stderr is not None
        while "round 2 of at most 200" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        assert "Traceback" not in process.stderr.read()
    (results,) = folder.glob("*.results.jsonl")
    finished = [json.loads(line) for line in results.read_text().splitlines()]
    assert 3 <= len(finished) < 201
    with results.open("a") as file:
        file.write('{"round": 7, "sec')  # cut off in the middle of a write
    assert measured(folder).returncode == 0
    bring(folder, job)
    lines: list[dict[str, Any]] = []
    transport("bundle").run(job, lines.append)
    assert [line["round"] for line in lines if "seconds" in line] == list(range(200))
    assert lines[: len(finished)] == finished


def test_results_of_another_job_are_refused(tmp_path: Path) -> None:
    job, other = make_job(tmp_path / "job"), make_job(tmp_path / "other", {"reference": 0.001, "another": 0.002})
    folder = unpacked(job)
    measured(folder)
    found = bring(folder, job)
    wrong = found.rename(transport("bundle").results(other))  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=r"results.jsonl: contains the results of another job \(.*move it away"):
        transport("bundle").run(other, lambda line: None)
    data = json.loads((folder / "job.json").read_text())
    (folder / "job.json").write_text(json.dumps({**data, "key": "another"}))
    wrong.rename(folder / found.name)
    done = measured(folder)
    assert done.returncode == 1 and "contains the results of another job" in done.stderr
    assert "Traceback" not in done.stderr


def test_jobs_come_one_after_the_other(tmp_path: Path) -> None:
    jobs = [make_job(tmp_path / "job"), make_job(tmp_path / "job", {"reference": 0.001, "another": 0.003})]
    for job in jobs:
        with pytest.raises(Waiting):
            transport("bundle").run(job, lambda line: None)
        with zipfile.ZipFile("a-device.zip") as bundle:
            bundle.extractall()
        measured(Path("a-device"))
        bring(Path("a-device"), job)
    lines: list[dict[str, Any]] = []
    for job in jobs:
        transport("bundle").run(job, lines.append)
    assert [line["job"] for line in lines if "job" in line] == [job.key for job in jobs]
    for path in tmp_path.glob("*.results.jsonl"):
        path.unlink()
    first = [line for line in lines if "seconds" in line][:3]
    transport("bundle").run(dataclasses.replace(jobs[0], before=first), lines.append)  # known: nothing to wait for


@pytest.mark.parametrize("line, says", [
    ("", "contains no finished round"),
    ("nonsense", "printed 'nonsense' where a line of timings was expected"),
    ('{"round": 0, "spent_s": 1, "seconds": [["short", NaN]]}', "time of short in round 0 is nan s"),
    ('{"round": 0, "spent_s": 1, "seconds": [["short", -1]]}', "time of short in round 0 is -1 s"),
    ('{"round": 0, "spent_s": 1, "seconds": [["short", 0]]}', "time of short in round 0 is 0 s"),
    ('{"round": 0, "spent_s": NaN, "seconds": [["short", 1]]}', "round 0 took nan s"),
    ('{"round": 0, "seconds": [["short", 1]]}', "a round without its number"),
    ('{"round": 0, "spent_s": 1, "seconds": [["strange", 1]]}', "a time of 'strange', which is not part of this job"),
])
def test_results_that_cannot_be_true_are_refused(line: str, says: str, tmp_path: Path) -> None:
    job = make_job(tmp_path / "job")
    header = json.dumps({"schema_version": 1, "job": job.key, "versions": {}, "machine": {}})
    transport("bundle").results(job).write_text(f"{header}\n{line}\n")  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=f"^a-device-.*.results.jsonl: .*{says}"):
        transport("bundle").run(job, lambda line: None)


def test_bytes_are_no_results(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job")
    transport("bundle").results(job).write_bytes(b"\xff\xfe\n")  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="byte 0 cannot be read; copy it from the device again"):
        transport("bundle").run(job, lambda line: None)


def test_known_rounds_do_not_come_twice(tmp_path: Path) -> None:
    job, lines = make_job(tmp_path / "job"), []
    folder = unpacked(job)
    measured(folder)
    bring(folder, job)
    transport("bundle").run(job, lines.append)
    rounds, again = [line for line in lines if "seconds" in line], []
    transport("bundle").run(dataclasses.replace(job, before=rounds[:2]), again.append)
    assert [line for line in again if "seconds" in line] == rounds[2:]


def test_a_file_of_the_user_is_not_overwritten(tmp_path: Path) -> None:
    Path("a-device.zip").write_text("mine")
    with pytest.raises(InputError, match="a-device.zip: exists and is not a bundle; move it away") as caught:
        transport("bundle").run(make_job(tmp_path / "job"), lambda line: None)
    assert not isinstance(caught.value, Waiting) and Path("a-device.zip").read_text() == "mine"
    Path("a-device.zip").unlink()
    for _ in range(2):  # but a bundle is written anew
        with pytest.raises(Waiting):
            transport("bundle").run(make_job(tmp_path / "job"), lambda line: None)


@pytest.mark.parametrize("name", [NASTY, "../../up", "/absolute", "..", "-o", "ü"])
def test_names_are_made_safe(name: str, tmp_path: Path) -> None:
    seconds = {name: 0.001, f"{name}2": 0.002}
    job = make_job(tmp_path / "job", seconds)
    folder = unpacked(job, name)
    assert {path.name for path in tmp_path.iterdir()} == {"job", "device", f"{folder.name}.zip"}
    assert folder.name.strip(".-") == folder.name
    measured(folder)
    bring(folder, job, name)
    lines: list[dict[str, Any]] = []
    transport("bundle", name).run(job, lines.append)
    assert {each for line in lines for each, _ in line.get("seconds", ())} == set(seconds)
    assert not list(tmp_path.glob("**/canary*"))


def test_without_a_place_for_the_file(tmp_path: Path) -> None:
    made = transport("bundle", file="nowhere/a.zip")
    with pytest.raises(InputError, match="nowhere: no such folder; set transport.file"):
        made.check()
    with pytest.raises(InputError, match="nowhere/a.zip: cannot be written .*set transport.file"):
        made.run(make_job(tmp_path / "job"), lambda line: None)


def test_a_missing_module_on_the_device_is_a_sentence(tmp_path: Path) -> None:
    done = measured(unpacked(make_job(tmp_path / "job", {"a": 0.001, "b": "import"})))
    assert done.returncode == 1 and "pip install a_module_that_is_not_there" in done.stderr
    assert "Traceback" not in done.stderr


def test_only_files_of_the_job_are_carried(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job")
    for name in ("m0.txt.data", "m0.json", "other.txt", "m0[1].txt"):
        (tmp_path / "job" / "models" / name).write_text("")
    (tmp_path / "job" / "units.jsonl").write_text("")
    names = {path.relative_to(folder).as_posix() for folder in [unpacked(job)] for path in folder.glob("models/*")}
    assert names == {"models/m0.txt", "models/m0.txt.data", "models/m1.txt", "models/m2.txt"}
    assert job.files() == ["job.json", "measure.py", *sorted(names), "runtime.py"]


def test_the_key_of_a_job_is_of_what_is_timed(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job")
    same = dataclasses.replace(job, before=({},), protocol=job.protocol._replace(budget_s=5), folder=tmp_path)
    assert same.key == job.key == dataclasses.replace(job, models=job.models[::-1]).key
    for change in ({"runtime": "x"}, {"options": {"threads": 2}}, {"reference": "short"}, {"models": job.models[:2]}):
        assert dataclasses.replace(job, **change).key != job.key
