"""The suite of runtimes over every installed one."""

from hardware_profiles import runtimes
from nas.testing import RuntimeContract, suites

globals().update(suites(RuntimeContract, *runtimes.names()))
