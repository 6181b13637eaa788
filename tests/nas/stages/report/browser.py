"""Drives a headless Chromium through its debugging pipe: no package, no port, no network."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SECONDS = 30
LAUNCH = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(each), fcntl.F_DUPFD, 10) for each in sys.argv[1:3])
os.dup2(read, 3), os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Becomes the browser, which reads from 3 and writes to 4."""


class Browser:
    """One page of a browser. What went wrong on it, and what it asked the network for, is kept."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self.write, self.read = to_browser, from_browser
        self.rest, self.number, self.session = b"", 0, ""
        self.errors: list[str] = []
        self.requests: list[str] = []

    def start(self) -> None:
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method and wait for its answer."""
        self.number += 1
        session = {"sessionId": self.session} if self.session else {}
        call = {"id": self.number, "method": method, "params": params, **session}
        os.write(self.write, json.dumps(call).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("id") == self.number:
                assert "error" not in message, f"{method}: {message['error']}"
                return dict(message["result"])

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            found = os.read(self.read, 1 << 20)
            assert found, "the browser ended"
            self.rest += found
        text, self.rest = self.rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(str(params["args"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def open(self, path: Path) -> None:
        """Open a report and wait until it is drawn."""
        self.ask("Page.navigate", url=path.resolve().as_uri())
        self.wait("document.documentElement?.dataset.ready === ''")

    def run(self, script: str) -> Any:
        """The value of an expression on the page."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, script: str, do: Callable[[], None] = lambda: None) -> Any:
        """Wait until an expression is true, and do something before each look: a slow page may miss it at first."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            do()
            found = self.run(script)
            if found:
                return found
            time.sleep(0.1)
        raise AssertionError(f"never came true: {script}")

    def size(self, width: int, height: int, dark: bool = False) -> None:
        """The window, and whether the system is dark."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                 mobile=width < 500)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", features=features)

    def point_at(self, x: float, y: float, click: bool = False) -> None:
        """Move the mouse, as a hand does it, and press it where wanted."""
        for away in (12, 4, 0):
            self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x + away, y=y + away)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self, path: Path) -> None:
        """What the window shows."""
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own in a folder."""
    assert CHROMIUM
    (it_reads, ours), (our_end, it_writes) = os.pipe(), os.pipe()
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
               "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
               f"--user-data-dir={folder}", "about:blank"]
    process = subprocess.Popen([sys.executable, "-c", LAUNCH, str(it_reads), str(it_writes), CHROMIUM, *options],
                               pass_fds=(it_reads, it_writes), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(it_reads)
    os.close(it_writes)
    try:
        found = Browser(ours, our_end)
        found.start()
        yield found
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(our_end)
