"""Worker processes that do not run the user's script again."""

from __future__ import annotations

import multiprocessing
import multiprocessing.util
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeVar
from unittest import mock

Result = TypeVar("Result")


class FreshPool(ProcessPoolExecutor):
    """A pool of isolated processes.

    By default, a new process imports the main module. That is not needed here, and a script without a `__name__` guard
    would start the same work repeatedly. Python also starts isolated, because it would otherwise import modules from
    the working directory. Signals are handled by the parent.
    """

    def __init__(self, workers: int, initializer: Callable[[], None] | None = None) -> None:
        with _isolated():  # starts a process that tracks semaphores
            super().__init__(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_start,
                             initargs=(initializer,))

    def submit(self, function: Callable[..., Result], /, *args: Any, **named: Any) -> Future[Result]:
        """As in the base class; the first call starts the processes."""
        with _without_main(), _isolated():
            return super().submit(function, *args, **named)


def _start(initializer: Callable[[], None] | None) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if initializer is not None:
        initializer()


@contextmanager
def _isolated() -> Iterator[None]:
    """Start interpreters with `-I`; multiprocessing sends them this one's import paths, and has no option for it."""
    usual = multiprocessing.util._args_from_interpreter_flags  # type: ignore[attr-defined]
    with mock.patch.object(multiprocessing.util, "_args_from_interpreter_flags", lambda: ["-I", *usual()]):
        yield


@contextmanager
def _without_main() -> Iterator[None]:
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
