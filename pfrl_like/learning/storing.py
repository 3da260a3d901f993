"""How a step goes into a replay buffer when it has more columns than the usual ones."""

from typing import Any

import numpy as np

from pfrl_like.utils.action_masks import mask_columns


def store_step(
    agent: Any, step: tuple[Any, ...], ended: Any, next_mask: Any, active: Any, **columns: list[Any]
) -> None:
    """Append a step of k environments, with the recurrent states and action masks that belong to it.

    Args:
        agent: Has the replay buffer, the memory of a recurrent network, and the mask of the last actions.
        step: Observations, actions, rewards, next observations, whether these are terminal, whether episodes are cut
            off there; each of length k.
        ended: Whether each episode has ended, [k]; asked for only if there is a memory.
        next_mask: True where an action is allowed in the next observations, [k, n_actions]; None for no mask.
        active: False for environments that took no step, [k]; None for none.
        **columns: Further columns, a value for each environment.
    """
    if agent.memory is not None:
        columns |= agent.memory.columns(ended, active)
    columns |= mask_columns(agent._last_mask, next_mask, step[3][0])
    env_ids = None
    if active is not None:
        env_ids = np.flatnonzero(active).tolist()
        step = tuple([column[i] for i in env_ids] for column in step)
        columns = {name: [column[i] for i in env_ids] for name, column in columns.items()}
    obs, action, reward, next_obs, done, reset = step
    agent.replay_buffer.append_batch(obs, action, reward, next_obs, done, reset, env_ids, **columns)
