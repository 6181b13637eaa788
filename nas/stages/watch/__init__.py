"""Follow a run in a terminal."""
