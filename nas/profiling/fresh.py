"""Fresh processes for work of our own: they do not run the user's script again."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeVar

Result = TypeVar("Result")


class Pool(ProcessPoolExecutor):
    """Processes that start with nothing but what they are given.

    A process would import the program's main module first. Of that nothing is needed here, and a script that is not
    guarded by its `__name__` would start the same work over and over.
    """

    def __init__(self, workers: int, initializer: Callable[[], None] | None = None) -> None:
        super().__init__(workers, mp_context=multiprocessing.get_context("spawn"), initializer=initializer)

    def submit(self, function: Callable[..., Result], /, *args: Any, **named: Any) -> Future[Result]:
        """As usual; the first call starts the processes."""
        with _without_main():
            return super().submit(function, *args, **named)


@contextmanager
def _without_main() -> Iterator[None]:
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
