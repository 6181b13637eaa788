"""Public path of `supernet.train.recipe`: the settings of a training.

A re-export; add nothing here.
"""

from supernet.train.recipe import Recipe

__all__ = ["Recipe"]
