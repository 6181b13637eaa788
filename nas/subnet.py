"""Public path of `nas.core.subnet`: the folder of one subnet.

A re-export; add nothing here.
"""

from nas.core.subnet import Subnet
from nas.core.subnet import SubnetFacts as Facts

__all__ = ["Facts", "Subnet"]
