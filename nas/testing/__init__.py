"""Conformance suites: what every registered thing promises, as classes of tests that a package inherits.

One class for each extension point. Name the thing under test, and pytest runs the suite over it:

    from nas.testing import BlockContract

    class TestWindowMean(BlockContract):
        name = "window_mean"

Importing this package is cheap and needs no pytest; a suite needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from search_spaces.lazy import lazy

if TYPE_CHECKING:
    from nas.testing.tasks import TaskContract

__all__ = ["TaskContract", "suites"]
__getattr__ = lazy(__name__, {
    "TaskContract": "nas.testing.tasks",
})


def suites(contract: type[Any], *names: str, **attributes: Any) -> dict[str, type[Any]]:
    """A class of tests for each name, for the `globals()` of a test module: `TestWindowMean` for `window_mean`.

    Args:
        attributes: what all of these classes have in common.
    """
    found = {f"Test{''.join(word.capitalize() for word in name.replace('-', '_').split('_'))}": name for name in names}
    return {title: type(title, (contract,), {"name": name, **attributes}) for title, name in found.items()}
