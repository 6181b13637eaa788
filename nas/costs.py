"""Public path of `nas.core.costs`: parameters, multiply-adds and bytes of an architecture.

A re-export; add nothing here.
"""

from nas.core.costs import Cost, UnitCost, count, count_params, unit_costs

__all__ = ["Cost", "UnitCost", "count", "count_params", "unit_costs"]
