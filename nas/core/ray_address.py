"""Checks that a Ray cluster answers at an address, because Ray itself would try for minutes and ignore Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray

from search_spaces import InputError
from search_spaces.errors import Option

ANSWER_S = 5.0
"""Timeouts in seconds: for connecting to a machine, and for its answer."""
CONNECT_S = 120.0
"""Time limit for Ray's connection, including sending packages; Ray waits forever if there is no cluster."""
_POLL_S = 0.2
CLIENT = "ray://"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""Start of a gRPC connection: the HTTP/2 preface with empty settings."""
_SETTINGS = 4
"""The kind of the first frame that a gRPC server answers with."""
START = "start a cluster with ray start --head (see docs/cluster.md)"
REMEDY = f"{START}, or use {Option('ray')} local"


def check_answers(address: str) -> None:
    """Raises InputError unless a possible Ray cluster answers at an address.

    Args:
        address: `auto`, host:port, or ray://host:port.
    """
    requested = f"{address!r}"
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS") or _require_local()
        requested = f"'auto' ({address})"
    match = re.fullmatch(r"(?:ray://)?(?:\[([^\]]+)\]|([^:/]+)):(\d{1,5})(?:/.*)?", address)
    if not match or not 0 < int(match[3]) < 1 << 16:
        raise InputError(Option("ray"), f"{requested} is not allowed; "
                                        f"allowed: auto, local, HOST:PORT or {CLIENT}HOST:PORT")
    host, port = match[1] or match[2], int(match[3])
    why = _why_not(host, port)
    if why:
        raise InputError(Option("ray"), f"no Ray cluster at {requested}: {why}", REMEDY)


def local_address() -> str | None:
    """The address of the cluster that this machine belongs to; None if it belongs to none.

    `ray start` writes it to the file that the documentation of `ray.init` names.
    """
    temporary = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"  # noqa: S108
    try:
        return Path(temporary, "ray", "ray_current_cluster").read_text("utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _require_local() -> str:
    """See `local_address`. Raises InputError if this machine belongs to no cluster."""
    address = local_address()
    if not address:
        message = "no Ray cluster for 'auto': RAY_ADDRESS is not set, and Ray is not running here"
        raise InputError(Option("ray"), message, REMEDY)
    return address


def _why_not(host: str, port: int) -> str | None:
    """Why no Ray cluster answers at a port; None if there may be one."""
    where = f"port {port} of {host}"
    try:
        with socket.create_connection((host, port), ANSWER_S) as connection:
            if os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
                return None  # it answers only after Ray's own handshake
            connection.sendall(_PREFACE)
            answer = connection.recv(9)
    except socket.gaierror:
        return f"unknown host {host}"
    except ConnectionRefusedError:
        return f"nothing listens on {where}"
    except TimeoutError:
        return f"{where} did not answer within {ANSWER_S:.0f} s"
    except (OSError, OverflowError) as error:
        return f"{where} cannot be reached ({getattr(error, 'strerror', None) or error})"
    return None if len(answer) > 3 and answer[3] == _SETTINGS else f"the server on {where} is not a Ray cluster"


def start_local(**settings: Any) -> None:
    """Start a cluster on this machine. Ray replaces the SIGTERM handler, which is restored.

    Its processes end with the thread that starts them: it has to be this one.
    """
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address="local", **settings)
    except SystemExit:  # Ray's way to end on SIGTERM
        raise KeyboardInterrupt from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def connect(address: str, **settings: Any) -> None:
    """Connect to the cluster at an address, within a time limit. Ctrl-C and SIGTERM are handled meanwhile.

    Raises:
        TimeoutError: it took longer.
    """
    until = time.monotonic() + CONNECT_S

    def check_time() -> None:
        if time.monotonic() > until:
            raise TimeoutError(f"the server does not answer as a Ray cluster does ({CONNECT_S:.0f} s)")

    error = in_thread(lambda: ray.init(address=address, **settings), check_time, _POLL_S)
    if error is not None:
        raise error


def in_thread(work: Callable[[], object], meanwhile: Callable[[], None], poll_s: float) -> BaseException | None:
    """Run a call in another thread, because Ray blocks signals; returns its error, if any.

    Args:
        meanwhile: called repeatedly in this thread; an error that it raises ends the wait.
    """
    failed: list[BaseException] = []

    def do() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(poll_s)
        meanwhile()
    return failed[0] if failed else None
