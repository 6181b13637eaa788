"""Public path of `supernet.train.recipe`: the settings of a training."""

from supernet.train.recipe import Recipe

__all__ = ["Recipe"]
