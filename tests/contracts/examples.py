"""Small configurations of block kinds; the suites of nas.testing use them."""

from nas.testing.examples import (
    FACTS,
    NARROW,
    all_kinds,
    candidates,
    combinations,
    hidden,
    is_valid,
    modules,
    space_data,
    space_facts,
    valid_configs,
)

__all__ = ["FACTS", "NARROW", "all_kinds", "candidates", "combinations", "hidden", "is_valid", "modules", "space_data",
           "space_facts", "valid_configs"]
