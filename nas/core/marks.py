"""Marks costs that are based on unmeasured prices: interpolated, or estimated from a specification."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence

from hardware_profiles.profile import folder_of, named_folder, read_stored
from hardware_profiles.provenance import ProfileWarning
from nas.core.measures import MARK, Measure
from search_spaces import InputError
from search_spaces.errors import Command

LEGEND = f"{MARK} partly interpolated or estimated: not all of its units were measured"
Shares = Mapping[str, float]
"""By the name of a measure, the share that is based on unmeasured units."""


def is_marked(shares: Sequence[Shares], measures: Sequence[Measure]) -> bool:
    """Whether one of these measures is marked for one of the architectures."""
    return any(architecture.get(measure.name, 0.0) > 0 for architecture in shares for measure in measures)


def unmeasured_notes(shares: Sequence[Shares], measures: Sequence[Measure], space: str, where: str) -> Iterator[str]:
    """A sentence for each partly unmeasured measure: how many architectures, and what to run.

    Args:
        shares: one mapping for each architecture.
        space: what `nas profile --space` takes.
        where: where the architectures are, such as "on the front".
    """
    for measure in measures:
        positive = sorted(share for architecture in shares if (share := architecture.get(measure.name, 0.0)) > 0)
        if positive and measure.device is not None:
            low, high = (f"{100 * share:.0f}" if share >= 0.01 else "<1" for share in (positive[0], positive[-1]))
            part = f"{high} %" if low == high else f"{low} to {high} %"
            word, remedy = _remedy(measure.device, measure.phase, space)
            yield (f"{measure.name} of {len(positive)} of {len(shares)} architectures {where} is based on {word} "
                   f"unit latencies ({part} of the {measure.kind.label}); {remedy}")


def warn_unmeasured(shares: Sequence[Shares], measures: Sequence[Measure], space: str, where: str) -> None:
    """Warn with a ProfileWarning for each of these sentences."""
    for note in unmeasured_notes(shares, measures, space, where):
        warnings.warn(note, ProfileWarning, stacklevel=3)


def profile_command(device: str, phase: str, space: str = "") -> str:
    """The command that measures more units of a profile. Raises InputError if the profile is gone.

    Args:
        space: by default the one that was profiled last.
    """
    folder = folder_of(device)
    name = read_stored(folder).device.name
    return str(Command("profile", name, space=space or None, phase=None if phase == "prefill" else phase,
                       out=None if folder == named_folder(name) else str(folder), budget="10m"))


def _remedy(device: str, phase: str, space: str) -> tuple[str, str]:
    """The kind of prices, and how to get measured ones."""
    try:
        if read_stored(folder_of(device)).device.estimated:
            return "estimated", f"{device} is estimated from a specification; profile the device to measure it"
        return "interpolated", f"to measure more units, run {profile_command(device, phase, space)}"
    except InputError:
        return ("interpolated or estimated",
                f"there is no profile of {device} here; create one with {Command('profile', device)}")
