"""Several environments as one, and small environments to test with."""

from pfrl_like.envs.multiprocess_vector_env import MultiprocessVectorEnv
from pfrl_like.envs.serial_vector_env import SerialVectorEnv
from pfrl_like.envs.vector_stream import VectorObs, VectorStep, VectorStream, as_vector_stream

__all__ = ["MultiprocessVectorEnv", "SerialVectorEnv", "VectorObs", "VectorStep", "VectorStream", "as_vector_stream"]
