"""Several environments as one, and small environments to test with."""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from pfrl_like.envs.multiprocess_vector_env import MultiprocessVectorEnv
from pfrl_like.envs.pfrl_stream import as_vector_stream
from pfrl_like.envs.serial_vector_env import SerialVectorEnv
from pfrl_like.envs.vector_stream import VectorObs, VectorStep, VectorStream

if TYPE_CHECKING:
    from pfrl_like.envs import abc as abc
    from pfrl_like.envs import bit_flipping as bit_flipping

__all__ = ["MultiprocessVectorEnv", "SerialVectorEnv", "VectorObs", "VectorStep", "VectorStream", "as_vector_stream"]


def __getattr__(name: str) -> ModuleType:
    """Import a module of small environments when it is first asked for: they need gymnasium, the others do not."""
    if name in ("abc", "bit_flipping"):
        return importlib.import_module(f"pfrl_like.envs.{name}")
    raise AttributeError(f"module 'pfrl_like.envs' has no attribute {name!r}")
