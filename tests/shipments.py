"""Small subnets; a package that tests its own formats finds them in nas.testing."""

from nas.testing.small_subnets import BASE, FFN, MIXERS, SPACES, TASKS, ship, space, tokenizer

__all__ = ["BASE", "FFN", "MIXERS", "SPACES", "TASKS", "ship", "space", "tokenizer"]
