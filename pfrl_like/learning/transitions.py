"""Steps on their way into a replay buffer: what the arguments of `batch_observe` agree with, and further columns."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pfrl_like.utils.action_masks import mask_columns
from pfrl_like.utils.checks import unequal_lengths


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


def check_observed(
    agent: Any,
    batch_obs: Any,
    batch_reward: Sequence[float],
    batch_done: Sequence[bool],
    batch_reset: Sequence[bool],
    active: Any = None,
) -> None:
    """Refuse what cannot have come of the last actions of an agent; arguments as of `BatchAgent.batch_observe`.

    Raises:
        RuntimeError: In training, if no action was asked for before.
        ValueError: If the arguments have different lengths.
    """
    if not len(batch_obs) == len(batch_reward) == len(batch_done) == len(batch_reset):
        raise unequal_lengths(obs=batch_obs, reward=batch_reward, done=batch_done, reset=batch_reset)
    if active is not None and len(active) != len(batch_obs):
        raise unequal_lengths(obs=batch_obs, active=active)
    if not agent.training:
        return
    if agent.batch_last_obs is None:
        raise RuntimeError("observe was called in training before act")
    if len(agent.batch_last_action) != len(batch_obs):
        raise unequal_lengths(obs=batch_obs, last_action=agent.batch_last_action)
