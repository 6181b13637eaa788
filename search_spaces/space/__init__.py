"""SearchSpace and its parts."""
