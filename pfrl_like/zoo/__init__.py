"""The short way: presets and builders that compose agents, environments and runs from the parts of the library."""

from pfrl_like.zoo.load_agent import LoadedAgent, load_agent
from pfrl_like.zoo.make import Made, make

__all__ = ["LoadedAgent", "Made", "load_agent", "make"]
