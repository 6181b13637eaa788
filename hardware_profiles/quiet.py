"""Suppresses the output of libraries, which would disturb ours."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def no_warnings() -> Iterator[None]:
    """Suppress warnings and log messages."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings, log messages and everything that Python code prints."""
    with no_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield
