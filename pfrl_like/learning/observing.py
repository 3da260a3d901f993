"""What the arguments of `batch_observe` have to agree with."""

from collections.abc import Sequence
from typing import Any

from pfrl_like.utils.checks import unequal_lengths


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
