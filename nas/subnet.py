"""Public path of `nas.core.subnet`: the folder of one subnet."""

from nas.core.subnet import Subnet
from nas.core.subnet import SubnetFacts as Facts

__all__ = ["Facts", "Subnet"]
