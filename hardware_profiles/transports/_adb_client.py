"""Android's debug bridge: calls of the `adb` executable, and its errors."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from search_spaces.errors import InputError

_STATES = {
    "unauthorized": "{serial} does not trust this machine; unlock its screen and allow USB debugging",
    "offline": "{serial} is offline; plug it in again or run `adb reconnect`",
    "no permissions": "this user may not use {serial}; run `adb devices` and check the udev rules",
}
_GONE = r"device .*not found|device (offline|unauthorized)|no devices|error: closed|protocol fault|connection reset"
LOG_TRIES = 3
"""The system log may lag behind the program that wrote to it."""


class Adb:
    """One device. `cut` creates the error for a lost connection."""

    def __init__(self, executable: str, serial: str | None, device_name: str, timeout_s: float,
                 cut: Callable[[str], InputError]) -> None:
        self.executable, self.serial, self.device_name = executable, serial, device_name
        self.timeout_s, self.cut = timeout_s, cut

    def choose(self) -> None:
        """Raises InputError unless exactly one device is selected and usable."""
        lines = self._call(["devices"]).splitlines()
        matches = [re.match(r"(\S+)(?:\t| +(?=no permissions))(.+)", line) for line in lines]
        states = {match[1]: match[2] for match in matches if match}
        if not states:
            raise self._refuse("no Android device is connected; plug one in, allow USB debugging, and check with `adb "
                               "devices`")
        if self.serial is None and len(states) > 1:
            raise self._refuse("several devices are connected; set transport.serial to one of "
                               f"{', '.join(sorted(states))}")
        serial = self.serial or next(iter(states))
        if serial not in states:
            raise self._refuse(f"no device {serial} is connected; allowed: {', '.join(sorted(states))}")
        state = states[serial]
        for word, sentence in _STATES.items():
            if state.startswith(word):
                raise self._refuse(sentence.format(serial=serial))
        if state.split()[0] != "device":
            raise self._refuse(f"{serial} is in the state {state!r} instead of 'device'; start it normally")
        self.serial = serial

    def listed(self, folder: str) -> set[str]:
        """Names of the files in a folder, which is created if missing."""
        self.shell(["mkdir", "-p", folder])
        return set(self.shell(["ls", folder]).splitlines())

    def push(self, path: Path, target: str) -> None:
        """Copy a file atomically."""
        self._call(["push", str(path), f"{target}.part"])
        self.shell(["mv", f"{target}.part", target])

    def shell(self, words: Sequence[str], fails: bool = True) -> str:
        """The output of a command on the device. Raises InputError if it fails, unless failure is allowed."""
        return self._call(["shell", " ".join(map(shlex.quote, words))], fails)

    def started(self, words: Sequence[str], folder: str, tag: str | None, pattern: str) -> tuple[str, str]:
        """Start a program in a folder; returns its output, and its log if the pattern is not in its output."""
        line = " ".join(map(shlex.quote, words))
        text = self._call(["shell", f"cd {shlex.quote(folder)} && echo $$ && exec {line} 2>&1"])
        process, _, output = text.partition("\n")
        log = ""
        if tag is not None and process.strip().isdecimal() and not re.search(pattern, output):
            for attempt in range(LOG_TRIES):
                time.sleep(0.1 * attempt)
                log = self.shell(["logcat", "-d", "-v", "raw", f"--pid={process.strip()}", "-s", tag], fails=False)
                if re.search(pattern, log):
                    break
        return output, log

    def _call(self, words: Sequence[str], fails: bool = True) -> str:
        chosen = ["-s", self.serial] if self.serial is not None and words[0] != "devices" else []
        try:
            done = subprocess.run([self.executable, *chosen, *words], stdin=subprocess.DEVNULL,  # noqa: S603
                                  capture_output=True, timeout=self.timeout_s, start_new_session=True, check=False)
        except OSError as error:
            raise self._refuse(f"{self.executable} cannot be started ({error.strerror}); set transport.adb") from None
        except subprocess.TimeoutExpired:
            raise self.cut(f"no answer for {self.timeout_s:.0f} s") from None
        output, errors = (stream.decode("utf-8", "replace").replace("\r\n", "\n")
                          for stream in (done.stdout, done.stderr))
        if done.returncode:
            last = ((errors.strip() or output.strip()).splitlines() or ["no output"])[-1]
            if re.search(_GONE, errors):
                raise self.cut(last)
            if fails:
                raise self._refuse(f"`adb {' '.join(words)[:60]}` ended with code {done.returncode}: {last}")
        return output

    def _refuse(self, message: str) -> InputError:
        return InputError(self.device_name, message)
