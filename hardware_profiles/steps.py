"""The steps that a phase runs, and which of them reuse weights."""

from __future__ import annotations

from search_spaces.architecture import Architecture
from search_spaces.errors import InputError
from search_spaces.units import Step, plan


def phase_steps(arch: Architecture, phase: str) -> tuple[Step, ...]:
    """The steps a phase runs: all of them, or the decoder's for one more token. Raises InputError."""
    if phase == "prefill":
        return plan(arch)
    if arch.family == "encoder":
        raise InputError("phase", "an encoder does not decode; allowed: prefill")
    return tuple(step for step in plan(arch) if step.stack == "decoder")


def steps_with_reuse(arch: Architecture, phase: str) -> list[tuple[Step, bool]]:
    """The steps a phase runs, and whether an earlier layer has used the same weights.

    Such a step has a scale of its own (`profile.scale`), because its weights may be in the caches of the processor.
    """
    seen: set[str] = set()
    pairs = []
    for step in phase_steps(arch, phase):
        pairs.append((step, step.layer >= 0 and step.path in seen))
        seen.add(step.path)
    return pairs
