"""Environments by id, vector environments, and small environments for tests."""

from pfrl_like.envs import abc, bit_flipping
from pfrl_like.envs.gymnasium_stream import as_vector_stream
from pfrl_like.envs.make_env import make_env, make_vec
from pfrl_like.envs.multiprocess_vector_env import MultiprocessVectorEnv
from pfrl_like.envs.serial_vector_env import SerialVectorEnv
from pfrl_like.envs.vector_stream import VectorObs, VectorStep, VectorStream

__all__ = [
    "MultiprocessVectorEnv", "SerialVectorEnv", "VectorObs", "VectorStep", "VectorStream", "abc",
    "as_vector_stream", "bit_flipping", "make_env", "make_vec",
]  # fmt: skip
