"""A device via ssh. Uses the system's OpenSSH client, so that the user's configuration, keys and jump hosts work.

The device needs Python and the packages that the runtime imports. Files are sent once and kept there under their hash.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import IO, Any

from pydantic import Field, ValidationInfo, field_validator

from hardware_profiles import protocol, runtimes
from hardware_profiles.transports._base import Base, Job, Sink, Stop, TransportSettings, is_stored
from hardware_profiles.transports._files import archive, as_file, digest
from hardware_profiles.transports._process import LEASE_S, stream
from hardware_profiles.transports._remote import MARK
from hardware_profiles.transports._rounds import parse_line
from hardware_profiles.transports._ssh_client import OWN_ERROR, command, meaning
from hardware_profiles.transports._ssh_options import HOST, check
from search_spaces.errors import InputError
from search_spaces.files.reading import parse_json, table

ANSWER_S = 60
"""Time limit of a short call, in seconds, in addition to that for connecting."""
WAIT_S = LEASE_S + 5
"""Seconds to wait for a measurement whose connection was lost; it ends by itself."""


class SshSettings(TransportSettings):
    """Which host, and where on it."""

    host: str = Field(description="a host of ~/.ssh/config, or [user@]address")
    port: int | None = Field(None, ge=1, le=65535, description="port; default: as configured for ssh")
    identity: str | None = Field(None, min_length=1, description="private key file")
    python: str = Field("python3", description="Python on the device: a name, or a path relative to the home folder")
    folder: str = Field(".cache/paretoformer", description="folder for files on the device, relative to the home "
                                                           "folder")
    options: dict[str, str | int | bool] = Field({}, description="ssh options from a safe list, as in `man ssh_config`")
    connect_timeout: int = Field(10, ge=1, le=600, description="seconds")

    @field_validator("host")
    @classmethod
    def _plain_host(cls, host: str) -> str:
        if not re.fullmatch(HOST, host, re.ASCII):
            raise ValueError(f"{host!r} is not allowed; allowed: a host of ~/.ssh/config, or [user@]address")
        return host

    @field_validator("python", "folder", "identity")
    @classmethod
    def _plain_path(cls, path: str | None) -> str | None:
        if path is not None and (not path.strip() or path.startswith("-") or not path.isprintable()):
            raise ValueError(f"{path!r} is not allowed; allowed: a path that does not start with a dash")
        return path

    @field_validator("options")
    @classmethod
    def _harmless_options(cls, options: dict[str, str | int | bool],
                          info: ValidationInfo) -> dict[str, str | int | bool]:
        if not is_stored(info):
            check(options)
        return options


def missing(settings: SshSettings) -> str | None:
    """Why this transport is not available on this machine; None if it is."""
    return None if shutil.which("ssh") else "ssh not found on this machine; install the OpenSSH client"


class SshTransport(Base):
    """Runs `measure.py` with the device's Python."""

    settings: SshSettings

    def check(self, runtime: str | None = None) -> None:
        """See `Base.check`."""
        source = Path(str(runtimes.get(runtime).__file__)).read_text("utf-8") if runtime else "def versions(): pass\n"
        answer = self._ask({"mode": "check"}, as_file(source))
        if answer["lacks"]:
            module, reason = answer["lacks"]
            python = f"ssh {self.settings.host} {self.settings.python}"
            raise self._refuse(f"{self.settings.python} on the device has no module {module} ({reason}); run "
                               f"`{python} -m pip install {module}`")

    def run(self, job: Job, sink: Sink, stop: Stop = lambda: False) -> None:
        """See `Base.run`."""
        job.write()
        self._send(job)
        started = False

        def take(text: str) -> None:
            nonlocal started
            if started:
                sink(parse_line(text, self.device_name))
            elif text.startswith(MARK):
                self._answer(text)
                started = True

        call = {"mode": "run", "job": job.key[:16], "wait_s": WAIT_S, "lease_s": LEASE_S}
        ended = stream(self._command(call), take, stop)
        if ended.code and not ended.stopped:
            raise self._explain(ended.code, ended.errors, started)

    def _send(self, job: Job) -> None:
        files = {name: digest(job.folder / name) for name in job.files()}
        needed = self._ask({"mode": "need"}, as_file(json.dumps(sorted(set(files.values())))))["need"]
        self._ask({"mode": "put", "job": job.key[:16], "wait_s": WAIT_S}, archive(job.folder, files, needed), None)

    def _command(self, call: dict[str, Any]) -> list[str]:
        return command(self.settings, {"folder": self.settings.folder, **call})

    def _ask(self, call: dict[str, Any], stdin: IO[bytes], timeout_s: float | None = ANSWER_S) -> dict[str, Any]:
        """One short call, with standard input for the device."""
        host, identity = self.settings.host, self.settings.identity
        why = missing(self.settings)
        if why:
            raise self._refuse(why)
        if identity and not Path(identity).expanduser().is_file():
            raise self._refuse(f"key file {identity} not found; set transport.identity")
        limit = None if timeout_s is None else timeout_s + self.settings.connect_timeout
        try:
            with stdin:
                done = subprocess.run(self._command(call), stdin=stdin, capture_output=True, timeout=limit,  # noqa: S603
                                      start_new_session=True, check=False)
        except subprocess.TimeoutExpired:
            raise self._refuse(f"{host} did not answer within {limit:.0f} s; try `ssh {host}`") from None
        answers = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if line.startswith(MARK)]
        if done.returncode or not answers:
            lines = done.stderr.decode("utf-8", "replace").splitlines()
            raise self._explain(done.returncode, tuple(line for line in lines if line.strip()), False)
        return self._answer(answers[-1])

    def _answer(self, text: str) -> dict[str, Any]:
        answer = table(parse_json(text.removeprefix(MARK), self.device_name), self.device_name)
        if "fault" in answer:
            raise self._refuse(f"{self.settings.host} cannot store or run the job in {self.settings.folder}: "
                               f"{answer['fault']}")
        return answer

    def _explain(self, code: int, errors: tuple[str, ...], started: bool) -> InputError:
        reason = meaning(self.settings, code, errors)
        if reason is None or code == protocol.LEASE_ENDED or (started and code == OWN_ERROR):
            return self.cut(errors[-1].strip() if errors else "ssh printed nothing")
        return self._refuse(reason)

    def _refuse(self, message: str) -> InputError:
        return InputError(self.device_name, message)


HELP, TOOL = "a device reached by ssh", "ssh"
SETTINGS, TRANSPORT = SshSettings, SshTransport
