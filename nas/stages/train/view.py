"""Shows the result of a training in a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from nas.stages.train.run import TrainResult
from search_spaces.errors import Command


def summary(result: TrainResult, hints: bool = True) -> Iterator[str]:
    """A summary of the training, and the next commands if requested."""
    name, state = result.run.name, result.state
    yield f"trained for {state.step:,} steps, {state.tokens:,} tokens: {result.run.weights_path}"
    if hints:
        yield f"evaluate it: {Command('evaluate', name)}; check its ranking: {Command('rank', name)}"
        yield f"next: {Command('search', name)}"
