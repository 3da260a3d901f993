"""How probable recorded actions were under the policy that took them, as far as it is told; else an imitation of it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from pfrl_like import agents
from pfrl_like.algos.fitting.epochs import shown
from pfrl_like.algos.fitting.networks import adam, categorical_policy
from pfrl_like.dataset.selection import Selection
from pfrl_like.dataset.transition import stacked_shape
from pfrl_like.encoders import make_encoder
from pfrl_like.experiments.train_agent_offline import DatasetSource
from pfrl_like.ope.episodes import finite_column
from pfrl_like.ope.policies import policy_of, reader_of
from pfrl_like.ope.policy_actions import log_probs
from pfrl_like.ope.rows import Array, Rows
from pfrl_like.policies import GaussianHeadWithStateIndependentCovariance
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.runs.loop import Clock, run
from pfrl_like.utils.checks import check_counts


def told_log_probs(behavior: Any, rows: Rows, n_actions: int | None) -> Array | None:
    """Log-probabilities of the recorded actions as far as they are told, [n]; None if they are not.

    Args:
        behavior: They, or the policy that acted; None for what the data hold.
        rows: The transitions.
        n_actions: How many discrete actions there are; None of continuous ones.

    Raises:
        ValueError: If there are not as many as transitions, they are none, or the policy has other actions or sees
            other observations.
        TypeError: If `behavior` is neither, or a policy without densities or of actions of the other kind.
        NotFittedError: If it is an estimator that is not built yet.
    """
    behavior = rows.log_prob if behavior is None else behavior
    if behavior is None:
        return None
    if isinstance(behavior, str):
        raise TypeError("behavior: got a str, expected log-probabilities, a policy, or None")
    if isinstance(behavior, np.ndarray | Sequence | Tensor):
        recorded = finite_column("behavior", behavior, len(rows.reward))
        if n_actions is not None and recorded.max() > 0:
            raise ValueError(f"behavior has numbers up to {recorded.max():.6g}, expected logarithms of probabilities")
        return recorded
    policy = policy_of(behavior, n_actions, "behavior")
    obs = rows.obs.stacked_for(behavior)
    return log_probs(policy, obs, rows.action, reader_of(behavior, policy), argument="behavior")


def fitted_behavior(
    dataset: Any,
    n_steps: int = 20_000,
    n_actions: int | None = None,
    *,
    n_frames: int = 1,
    encoder_params: Mapping[str, Any] | None = None,
    show_progress: bool = False,
) -> Any:
    """An agent that imitates recorded actions, whose policy tells how probable they were.

    It is a `DiscreteBC` without penalty, or a `BC` of Gaussians with one covariance for all states.

    Args:
        dataset: An `MDPDataset`, or a list of episodes.
        n_steps: Updates.
        n_actions: How many discrete actions there are; None for those that occur. Not looked at of continuous ones.
        n_frames: How many images are stacked.
        encoder_params: As of `pfrl_like.encoders.make_encoder`.
        show_progress: Whether progress is shown.

    Raises:
        ValueError: If there is no transition, `n_actions` is less than occur, or another number cannot be.
        TypeError: If a number is no integer, or `dataset` is none.
    """
    check_counts(n_steps=n_steps, n_frames=n_frames)
    selection = Selection(dataset)
    if selection.discrete_action and n_actions is not None:
        check_counts(least=selection.action_size, n_actions=n_actions)
    encoder = make_encoder(stacked_shape(selection.observation_shape, n_frames), encoder_params)
    options: dict[str, Any] = {"minibatch_size": min(256, len(selection)), "replay_start_size": len(selection)}
    if selection.discrete_action:
        policy = categorical_policy(encoder, n_actions or selection.action_size)
        make: Any = agents.DiscreteBC
        options["beta"] = 0.0
    else:
        head = GaussianHeadWithStateIndependentCovariance(selection.action_size)
        policy = nn.Sequential(encoder, nn.Linear(encoder.feature_size, selection.action_size), head)
        make = agents.BC
    agent = make(policy, adam(policy, 1e-3, 1e-8), ReplayBuffer(None), **options)
    clock = Clock(n_steps)
    with shown(clock, show_progress) as callbacks:
        run(DatasetSource(agent, selection, n_frames=n_frames), clock, callbacks)
    return agent
