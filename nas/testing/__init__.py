"""Conformance suites: what every registered thing promises, as classes of tests that a package inherits.

One class for each extension point. Name the thing under test, and pytest runs the suite over it:

    from nas.testing import BlockContract

    class TestRecent(BlockContract):
        name = "recent"

Importing this package is cheap and needs no pytest; a suite needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from search_spaces.lazy import lazy

if TYPE_CHECKING:
    from nas.testing.blocks import BlockContract
    from nas.testing.formats import FormatContract
    from nas.testing.importers import ImporterContract
    from nas.testing.measures import MeasureContract
    from nas.testing.residuals import ResidualContract
    from nas.testing.runtimes import RuntimeContract
    from nas.testing.samplers import SamplerContract
    from nas.testing.tasks import TaskContract
    from nas.testing.techniques import TechniqueContract
    from nas.testing.transports import TransportContract

__all__ = ["BlockContract", "FormatContract", "ImporterContract", "MeasureContract", "ResidualContract",
           "RuntimeContract", "SamplerContract", "TaskContract", "TechniqueContract", "TransportContract", "suites"]
_HOMES = {"BlockContract": "blocks", "FormatContract": "formats", "ImporterContract": "importers",
          "MeasureContract": "measures", "ResidualContract": "residuals", "RuntimeContract": "runtimes",
          "SamplerContract": "samplers", "TaskContract": "tasks", "TechniqueContract": "techniques",
          "TransportContract": "transports"}
__getattr__ = lazy(__name__, {name: f"{__name__}.{module}" for name, module in _HOMES.items()})


def suites(contract: type[Any], *names: str, **attributes: Any) -> dict[str, type[Any]]:
    """A class of tests for each name, for the `globals()` of a test module: `TestWindowMean` for `window_mean`.

    Args:
        attributes: what all of these classes have in common.
    """
    classes = {"Test" + "".join(word.capitalize() for word in name.replace("-", "_").split("_")): name
               for name in names}
    return {title: type(title, (contract,), {"name": name, **attributes}) for title, name in classes.items()}
