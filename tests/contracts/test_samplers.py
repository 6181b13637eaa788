"""The suite of samplers over every installed one."""

from nas.stages.search import samplers
from nas.testing import SamplerContract, suites

globals().update(suites(SamplerContract, *samplers.names()))
