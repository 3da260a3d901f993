"""PFRL's functions of PPO: episodes of transition dicts, their advantages, and minibatches of them."""

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.functions.losses import explained_variance
from pfrl_like.functions.returns import gae
from pfrl_like.utils import recurrent
from pfrl_like.utils.batch_states import next_state
from pfrl_like.utils.contexts import evaluating

_Episode = Sequence[dict[str, Any]]


def _elementwise_clip(x: Tensor, x_min: Tensor, x_max: Tensor) -> Tensor:
    """Return `x` with each element clipped to its own range, in the shape of `x`."""
    return x.clamp(x_min, x_max)


def _add_advantage_and_value_target_to_episode(episode: _Episode, gamma: float, lambd: float) -> None:
    """Write the generalised advantage estimates (`adv`) and value targets (`v_teacher`) into the steps of an episode.

    Args:
        episode: Transition dicts with `reward`, `nonterminal`, `v_pred` and `next_v_pred`.
        gamma: Discount factor per step.
        lambd: Lambda of the generalised advantage estimate.
    """
    reward, nonterminal, value, next_value = _columns_of(episode, "reward", "nonterminal", "v_pred", "next_v_pred")
    continues = torch.ones_like(reward, dtype=torch.bool)
    advantage = gae(reward, gamma * nonterminal, value, next_value, continues, lambd)
    _write(episode, adv=advantage, v_teacher=advantage + value)


def _add_advantage_and_value_target_to_episodes(episodes: Iterable[_Episode], gamma: float, lambd: float) -> None:
    """Write advantages and value targets into episodes; see `_add_advantage_and_value_target_to_episode`."""
    for episode in episodes:
        _add_advantage_and_value_target_to_episode(episode, gamma, lambd)


def _add_log_prob_and_value_to_episodes(
    episodes: Iterable[_Episode], model: Any, phi: Any, batch_states: Any, obs_normalizer: Any, device: Any
) -> None:
    """Write the model's `log_prob`, `v_pred` and `next_v_pred` into the steps of episodes.

    Args:
        episodes: Lists of transition dicts.
        model: Module from observations to (distribution of actions, values [B, 1]).
        phi: Feature extractor of one observation.
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        obs_normalizer: Normaliser of features, or None.
        device: Device of the model.
    """
    steps = list(itertools.chain.from_iterable(episodes))
    states, next_states = _states_of(steps, phi, batch_states, obs_normalizer, device)
    with torch.no_grad(), evaluating(model):
        _write_outputs(steps, model(states), model(next_states), device)


def _add_log_prob_and_value_to_episodes_recurrent(
    episodes: Iterable[_Episode], model: Any, phi: Any, batch_states: Any, obs_normalizer: Any, device: Any
) -> None:
    """Write a recurrent model's outputs into the steps of episodes; see `_add_log_prob_and_value_to_episodes`.

    The first step of each episode has the recurrent states `recurrent_state` and `next_recurrent_state`.
    """
    episodes = sorted(episodes, key=len, reverse=True)
    states = zip(*(_states_of(each, phi, batch_states, obs_normalizer, device) for each in episodes), strict=True)
    outputs = []
    with torch.no_grad(), evaluating(model):
        for sequences, name in zip(states, ("recurrent_state", "next_recurrent_state"), strict=True):
            state = recurrent.concatenate_recurrent_states([each[0][name] for each in episodes])
            state = recurrent.map_recurrent_state(lambda part: torch.as_tensor(part, device=device), state)
            outputs.append(recurrent.pack_and_forward(model, list(sequences), state)[0])
        first, second = outputs
        _write_outputs(recurrent.flatten_sequences_time_first(episodes), first, second, device)


def _states_of(steps: _Episode, phi: Any, batch_states: Any, obs_normalizer: Any, device: Any) -> tuple[Any, Any]:
    """Return the model's inputs for the states and the next states of steps. A next state may be None."""
    states = [step["state"] for step in steps], [next_state(step) for step in steps]
    batches = [batch_states(each, device, phi) for each in states]
    first, second = batches if obs_normalizer is None else [obs_normalizer(each, update=False) for each in batches]
    return first, second


def _write_outputs(steps: _Episode, outputs: Any, next_outputs: Any, device: Any) -> None:
    actions = torch.as_tensor(np.asarray([step["action"] for step in steps]), device=device)
    (distribution, value), (_, next_value) = outputs, next_outputs
    _write(steps, log_prob=distribution.log_prob(actions), v_pred=value.flatten(), next_v_pred=next_value.flatten())


def _columns_of(steps: _Episode, *names: str) -> list[Tensor]:
    """Return a column, [N], float64, for each name. The steps have numbers, or arrays or tensors of one number."""
    double = torch.float64
    return [
        torch.tensor([torch.as_tensor(step[name], dtype=double).item() for step in steps], dtype=double)
        for name in names
    ]


def _write(steps: _Episode, **columns: Tensor) -> None:
    """Assign the element i of each column, [N], to step i."""
    for name, column in columns.items():
        for step, value in zip(steps, column.tolist(), strict=True):
            step[name] = value


def _make_dataset(
    episodes: Sequence[_Episode],
    model: Any,
    phi: Any,
    batch_states: Any,
    obs_normalizer: Any,
    gamma: float,
    lambd: float,
    device: Any,
) -> list[dict[str, Any]]:
    """Return the steps of episodes with all values that PPO's loss needs, in one list.

    Args:
        episodes: Lists of transition dicts.
        model: Module from observations to (distribution of actions, values [B, 1]).
        phi: Feature extractor of one observation.
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        obs_normalizer: Normaliser of features, or None.
        gamma: Discount factor per step.
        lambd: Lambda of the generalised advantage estimate.
        device: Device of the model.
    """
    _add_log_prob_and_value_to_episodes(episodes, model, phi, batch_states, obs_normalizer, device)
    _add_advantage_and_value_target_to_episodes(episodes, gamma, lambd)
    return list(itertools.chain.from_iterable(episodes))


def _make_dataset_recurrent(
    episodes: Sequence[_Episode],
    model: Any,
    phi: Any,
    batch_states: Any,
    obs_normalizer: Any,
    gamma: float,
    lambd: float,
    max_recurrent_sequence_len: int | None,
    device: Any,
) -> list[_Episode]:
    """Return episodes, cut into sequences, with all values that PPO's loss needs.

    Args:
        episodes: Lists of transition dicts.
        model: Recurrent module from observations to (distribution of actions, values [B, 1]).
        phi: Feature extractor of one observation.
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        obs_normalizer: Normaliser of features, or None.
        gamma: Discount factor per step.
        lambd: Lambda of the generalised advantage estimate.
        max_recurrent_sequence_len: Maximum length of a sequence, in steps; None keeps whole episodes.
        device: Device of the model.
    """
    _add_log_prob_and_value_to_episodes_recurrent(episodes, model, phi, batch_states, obs_normalizer, device)
    _add_advantage_and_value_target_to_episodes(episodes, gamma, lambd)
    length = max_recurrent_sequence_len
    return list(episodes) if length is None else _limit_sequence_length(episodes, length)


def _limit_sequence_length(sequences: Iterable[Sequence[Any]], max_len: int) -> list[Any]:
    """Cut sequences into parts of at most `max_len` items.

    Raises:
        ValueError: If `max_len` is below 1.
    """
    if max_len < 1:
        raise ValueError(f"max_len is {max_len}, expected at least 1")
    return [sequence[i : i + max_len] for sequence in sequences for i in range(0, len(sequence), max_len)]


def _yield_subset_of_sequences_with_fixed_number_of_items(
    sequences: Sequence[Sequence[Any]], n_items: int
) -> Iterator[list[Any]]:
    """Yield lists of consecutive sequences with `n_items` items in all. Sequences are cut; a rest is left out.

    Raises:
        ValueError: If `n_items` is below 1.
    """
    if n_items < 1:
        raise ValueError(f"n_items is {n_items}, expected at least 1")
    starts = np.cumsum([0, *map(len, sequences)]).tolist()
    for begin in range(0, starts[-1] - n_items + 1, n_items):
        parts = [
            sequence[max(begin - start, 0) : max(begin + n_items - start, 0)]
            for sequence, start in zip(sequences, starts, strict=False)
        ]
        yield [part for part in parts if len(part)]


def _compute_explained_variance(transitions: Iterable[dict[str, Any]]) -> float:
    """Return 1 - Var(v_teacher - v_pred) / Var(v_teacher) of steps, NaN if there are none or all are equal."""
    value, returns = _columns_of([*transitions], "v_pred", "v_teacher")
    return float(explained_variance(value, returns)) if len(returns) else math.nan


def _yield_minibatches(dataset: Sequence[Any], minibatch_size: int, num_epochs: int) -> Iterator[list[Any]]:
    """Yield minibatches of shuffled steps. A minibatch may contain the last steps of an epoch and steps of the next.

    Args:
        dataset: The steps.
        minibatch_size: Number of steps of a minibatch.
        num_epochs: Number of epochs; the last minibatch is filled with steps of one more epoch.

    Raises:
        ValueError: If `dataset` is empty.
    """
    if not len(dataset):
        raise ValueError("dataset is empty, expected at least one step")
    epochs = (reversed(random.sample(dataset, k=len(dataset))) for _ in itertools.count())
    steps = itertools.chain.from_iterable(epochs)
    for _ in range(math.ceil(len(dataset) * num_epochs / minibatch_size)):
        yield [*itertools.islice(steps, minibatch_size)][::-1]
