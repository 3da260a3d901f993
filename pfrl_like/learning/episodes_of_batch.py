"""A `Batch` from elsewhere in the form in which on-policy agents learn, and what they learnt from as a `Batch`."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.batch import ACTION_MASK, Batch, concatenate_nested, map_nested
from pfrl_like.columns import packed
from pfrl_like.learning.recurrent_memory import batch_first
from pfrl_like.learning.rollout import Episodes
from pfrl_like.utils.contexts import evaluating_readers
from pfrl_like.utils.recurrent import batch_sizes_of, get_recurrent_state_at, one_step_forward, sequence_of_rows

#: Column of `Batch.extra` that marks rows whose observations are features already.
FEATURES = "features"


def batch_of_episodes(episodes: Episodes) -> Batch:
    """What an agent learnt from, as packed sequences from which `episodes_of_batch` makes it again.

    After a step from which nothing is bootstrapped `next_obs` repeats `obs`.
    """
    steps, lengths = episodes.steps, episodes.lengths
    n, device = len(steps), steps.reward.device
    ends = torch.from_numpy(np.cumsum(lengths) - 1).to(device)
    following = torch.arange(1, n + 1, device=device).index_copy(0, ends, ends)
    following[episodes.last_rows] = n + torch.arange(len(episodes.last_rows), device=device)
    next_obs = map_nested(lambda leaf: leaf[following], concatenate_nested([steps.obs, episodes.last_obs]))
    order = np.argsort(-lengths, kind="stable")
    time, sequence = packed(lengths[order])
    first = torch.from_numpy((np.cumsum(lengths) - lengths)[order]).to(device)
    rows = first[torch.from_numpy(sequence).to(device)] + torch.from_numpy(time).to(device)
    return steps.replace(next_obs=next_obs)[rows].replace(
        lengths=torch.from_numpy(lengths[order]),
        recurrent_state=map_nested(lambda leaf: leaf[first].movedim(0, 1).contiguous(), episodes.states),
        extra={FEATURES: torch.ones(n, dtype=torch.bool)},
    )


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
    if FEATURES in (batch.extra or {}):
        batch = batch.to(agent.device).replace(extra=None)
    else:
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
