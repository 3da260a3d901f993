"""PFRL's form of a minibatch, a list of lists of transition dicts, as a `Batch`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from pfrl_like.batch import Batch
from pfrl_like.utils.recurrent import (
    concatenate_recurrent_states,
    flatten_sequences_time_first,
    recurrent_state_from_numpy,
)

Transition = Mapping[str, Any]


def batch_of_experiences(
    experiences: Sequence[Sequence[Transition]], gamma: float, *, sequences: bool = False
) -> Batch:
    """Collate items of `sample` (or episodes of `sample_episodes`) on the CPU.

    Args:
        experiences: n items, each the one to n steps of a transition; with `sequences`, n (parts of) episodes.
        gamma: Discount factor per step.
        sequences: Whether the items are sequences for a recurrent network.

    Raises:
        ValueError: If there are none.
    """
    if not experiences:
        raise ValueError("experiences is empty, expected at least one item")
    if sequences:
        return _sequences(sorted(experiences, key=len, reverse=True), gamma)
    first, last = [item[0] for item in experiences], [item[-1] for item in experiences]
    reward = [sum(gamma**i * step["reward"] for i, step in enumerate(item)) for item in experiences]
    ended = [any(step["is_state_terminal"] for step in item) for item in experiences]
    discount = [0.0 if end else gamma ** len(item) for end, item in zip(ended, experiences, strict=True)]
    return _batch(first, last, reward, discount, [item[0] for item in experiences])


def _sequences(episodes: Sequence[Sequence[Transition]], gamma: float) -> Batch:
    steps = flatten_sequences_time_first(episodes)
    discount = [0.0 if step["is_state_terminal"] else gamma for step in steps]
    batch = _batch(steps, steps, [step["reward"] for step in steps], discount, steps)
    states = {
        name: recurrent_state_from_numpy(
            concatenate_recurrent_states([episode[0].get(name) for episode in episodes]), torch.device("cpu")
        )
        for name in ("recurrent_state", "next_recurrent_state")
    }
    return batch.replace(lengths=torch.tensor([len(episode) for episode in episodes]), **states)


def _batch(
    first: Sequence[Transition],
    last: Sequence[Transition],
    reward: Sequence[float],
    discount: Sequence[float],
    weighted: Sequence[Transition],
) -> Batch:
    def column(steps: Sequence[Transition], name: str) -> Any:
        values = [step.get(name) for step in steps]
        return None if any(value is None for value in values) else stack(values)

    weight = column(weighted, "weight")
    next_obs = [step["next_state"] for step in last]
    obs = [step["state"] for step in first]
    next_obs = [own if own is not None else some for own, some in zip(next_obs, obs, strict=True)]  # terminal: not read
    return Batch(
        obs=stack(obs),
        action=column(first, "action"),
        reward=torch.tensor(reward, dtype=torch.float32),
        next_obs=stack(next_obs),
        discount=torch.tensor(discount, dtype=torch.float32),
        weight=None if weight is None else weight.float(),
        action_mask=column(first, "action_mask"),
        next_action_mask=column(last, "next_action_mask"),
        next_action=column(last, "next_action"),
    )


def stack(values: Sequence[Any]) -> Any:
    """Stack arrays, numbers or nested dicts and tuples of them along a new first axis, as tensors."""
    if isinstance(values[0], Mapping):
        return {key: stack([value[key] for value in values]) for key in values[0]}
    if isinstance(values[0], tuple):
        return tuple(stack([value[i] for value in values]) for i in range(len(values[0])))
    return torch.from_numpy(np.stack([np.asarray(value) for value in values]))
