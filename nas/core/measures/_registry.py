"""The installed measures: the files of this folder, and those of users.

User measures come from packages, through the entry-point group `nas.measures`, or from single files: see
`search_spaces.plugins`.
"""

from __future__ import annotations

import re

from nas.core.measures._base import MeasureKind
from search_spaces import plugins
from search_spaces.errors import InputError

GROUP = "nas.measures"


@plugins.cached
def registry() -> dict[str, MeasureKind]:
    """Every installed measure by its name, in their order. Raises InputError for one that is declared wrongly."""
    own = str(__package__)
    kinds = plugins.values(own, GROUP, MeasureKind, "measure", _check)  # type: ignore[type-abstract]
    return dict(sorted(kinds.items(), key=lambda item: (item[1].place, item[0])))


def _check(kind: MeasureKind, where: str) -> None:
    lacking = [name for name in ("name", "label") if not getattr(kind, name, "")]
    if lacking:
        raise InputError(where, f"the measure {type(kind).__name__} has no {' and no '.join(lacking)}")
    if not re.fullmatch(r"\w+", kind.name):
        raise InputError(where, f"{kind.name!r} is not a valid name of a measure; allowed: letters, digits and _")
