"""`ChunkSender`, which collects the steps of an acting copy in k environments and makes chunks of them."""

from typing import Any

from pfrl_like.distributed.chunk import Chunk


class ChunkSender:
    """Replay buffer of an acting copy (`acting.replay_buffer`), or its `step_collector` if the agent is on-policy.

    It copies the steps that it gets, and returns all of them at the next `take`.

    Args:
        n_envs: Number k of environments. Their ids are 0 to k - 1.
    """

    prioritized = False

    def __init__(self, n_envs: int) -> None:
        raise NotImplementedError

    def __len__(self) -> int:
        return 0  # the acting copy never makes an update, because its buffer is empty

    def append_batch(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        next_obs: Any,
        terminated: Any,
        truncated: Any,
        env_ids: Any = None,
        **extra: Any,
    ) -> None:
        """Add a step of each of several environments; see `AbstractReplayBuffer.append_batch`."""
        raise NotImplementedError

    def stop_current_episode(self, env_id: Any = 0) -> None:
        """End the running episode of an environment."""
        raise NotImplementedError

    def take(self) -> Chunk | None:
        """Return all steps since the last call as a chunk. None if there are no steps."""
        raise NotImplementedError
