"""A `Batch` from elsewhere in the form in which on-policy agents learn."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.agents.memory import batch_first
from pfrl_like.agents.rollout import Episodes
from pfrl_like.batch import ACTION_MASK, Batch, concatenate_nested, map_nested
from pfrl_like.utils.contexts import evaluating_readers
from pfrl_like.utils.recurrent import batch_sizes_of, get_recurrent_state_at, one_step_forward, sequence_of_rows


def episodes_of_batch(agent: Any, batch: Batch) -> tuple[Episodes, Tensor]:
    """The steps of a batch, as features on the agent's device, one sequence after the other.

    Args:
        agent: An on-policy agent, whose features, model and normaliser are used.
        batch: Transitions, each of which is then an episode of its own, or sequences.

    Returns:
        The episodes, and which row of the batch each of their steps is, [N], on the host.

    Raises:
        ValueError: If transitions came to a recurrent agent.
    """
    if type(batch.obs) is dict and ACTION_MASK in batch.obs and batch.action_mask is None:
        batch = batch.replace(action_mask=batch.obs[ACTION_MASK].bool())
    features = {name: agent.features.on_batch(getattr(batch, name), agent.device) for name in ("obs", "next_obs")}
    batch = batch.to(agent.device).replace(**features)
    if batch.lengths is None:
        if agent.memory is not None:
            raise ValueError("batch holds transitions, but a recurrent agent learns from sequences: lengths is None")
        rows = torch.arange(len(batch))
        every = rows.to(agent.device)
        steps = batch.replace(next_obs=None, next_action_mask=None, index=None)
        return Episodes(steps, np.ones(len(batch), np.int64), every, batch.next_obs), rows
    order = sequence_of_rows(batch.lengths).argsort(stable=True)
    rows, lengths = order.to(agent.device), batch.lengths.numpy()
    last = torch.from_numpy(np.cumsum(lengths) - 1).to(agent.device)
    states = last_state = None
    if agent.memory is not None:
        states, last_state = _states(agent, batch, batch.lengths)
        states = map_nested(lambda leaf: leaf[rows], states)
    flat = batch.replace(
        lengths=None, recurrent_state=None, next_recurrent_state=None, next_action_mask=None, index=None
    )[rows]
    last_obs = map_nested(lambda leaf: leaf[last], flat.next_obs)
    return Episodes(flat.replace(next_obs=None), lengths, last, last_obs, last_state, states), order


def _states(agent: Any, batch: Batch, lengths: Tensor) -> tuple[Any, Any]:
    """The recurrent states before all packed rows, and after the last ones of the sequences, batch first."""
    state, start, before, after = batch.recurrent_state, 0, [], []
    sizes = [*batch_sizes_of(lengths).tolist(), 0]
    with torch.no_grad(), evaluating_readers(agent.model):
        for size, following in zip(sizes, sizes[1:], strict=False):
            place = slice(start, start + size)
            obs = agent.normalized(map_nested(lambda leaf: leaf[place], batch.obs))  # noqa: B023 - called at once
            _, new = one_step_forward(agent.model, obs, state)
            before.append(batch_first(state, new))
            after.append(batch_first(get_recurrent_state_at(new, slice(following, None), detach=True), new))
            state, start = get_recurrent_state_at(new, slice(0, following), detach=True), start + size
    return concatenate_nested(before), concatenate_nested(after[::-1])
