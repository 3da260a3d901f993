"""Minibatches and episodes that users hand to estimators: what does not fit is refused before anything is learnt."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from pfrl_like.algos.fitting.data import DrawnMiniBatch, batch_for
from pfrl_like.algos.fitting.shapes import (
    actions_for,
    check_action_kind,
    check_built_for,
    numbers_in,
    shape_of_several,
)
from pfrl_like.batch import Batch
from pfrl_like.dataset import Episode, TransitionMiniBatch
from pfrl_like.dataset.transition import stacked_shape


def fitting_batch(algo: Any, agent: Any, batch: Any) -> Batch:
    """A minibatch as the agent of an estimator learns from it.

    Args:
        algo: The estimator, or what is fitted like one.
        agent: Its agent.
        batch: A `TransitionMiniBatch`, or a `Batch`.

    Raises:
        TypeError: If it is neither, or its actions are of the other kind.
        ValueError: If observations or actions have another shape or are not as many as rewards, or there is no such
            discrete action.
        NonFiniteError: If there are NaN or infinite numbers among the actions.
    """
    if isinstance(batch, TransitionMiniBatch):
        obs, next_obs, actions = batch.observations, batch.next_observations, batch.actions
        vectors = np.ndim(batch.transitions[0].action) > 0
    elif isinstance(batch, Batch):
        obs, next_obs, actions = batch.obs, batch.next_obs, numbers_in("action", batch.action)
        vectors = actions.ndim > 1
    else:
        raise TypeError(f"batch is a {type(batch).__name__}, expected a TransitionMiniBatch or a Batch")
    shape = None if algo.observation_shape is None else stacked_shape(algo.observation_shape, algo.n_frames)
    for name, values in (("observations", obs), ("next observations", next_obs)):
        if shape is not None and np.shape(values) != (len(batch), *shape):
            expected = f"{shape_of_several(shape, algo.n_frames)}, where n is {len(batch)}"
            raise ValueError(f"batch has {name} {tuple(np.shape(values))}, expected {expected}")
    integers = actions.dtype.kind in "iu"
    check_action_kind(algo, integers and (algo.discrete_action or not vectors), "the batch has")
    actions = actions_for(actions, algo.action_size, algo.discrete_action)
    if len(actions) != len(batch):
        raise ValueError(f"batch has {len(actions)} actions, expected {len(batch)}")
    if isinstance(batch, TransitionMiniBatch):
        made = batch_for(agent, batch, algo.discrete_action)
        return drawn_as(batch.drawn, made) if isinstance(batch, DrawnMiniBatch) else made
    fitting: Batch = batch.replace(action=torch.as_tensor(actions, device=batch.reward.device))
    return fitting


def drawn_as(drawn: Batch, made: Batch) -> Batch:
    """A batch of a replay buffer, with its weights and masks, but the rows as a user has left them.

    Args:
        drawn: The batch.
        made: What was made of its rows.
    """
    discount = torch.where(made.discount == 0, 0.0, drawn.discount)
    return drawn.replace(
        obs=made.obs, action=made.action, reward=made.reward, next_obs=made.next_obs, discount=discount
    )


def check_eval_episodes(algo: Any, episodes: Any) -> None:
    """Refuse episodes that scorers cannot ask an estimator about; what is none is the scorers' own matter.

    Args:
        algo: The estimator, built.
        episodes: The `eval_episodes` of `fit`.

    Raises:
        TypeError: If actions are of the other kind.
        ValueError: If observations or actions have other shapes.
    """
    found = getattr(episodes, "episodes", episodes)
    chosen = [each for each in found if isinstance(each, Episode)] if isinstance(found, Sequence) else []
    for episode in {(id(each.table), each.get_action_size()): each for each in chosen}.values():
        check_action_kind(algo, episode.table.action.ndim == 1, "eval_episodes have")
        shape = episode.get_observation_shape()
        check_built_for(
            algo, algo.observation_shape_, algo.action_size_, shape, episode.get_action_size(), "eval_episodes: "
        )
