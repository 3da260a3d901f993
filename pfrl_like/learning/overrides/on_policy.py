"""Updates of PPO, A2C and REINFORCE agents whose subclass overrides methods of PFRL's agents."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.batch import Batch
from pfrl_like.errors import NonFiniteError
from pfrl_like.functions.returns import gae
from pfrl_like.learning.minibatches import batch_of_episodes, next_obs_rows
from pfrl_like.learning.model_outputs import policy_of
from pfrl_like.learning.overrides.hooks import arguments_of
from pfrl_like.learning.overrides.off_policy import call_loss_hook, checked_after_hooks, within_hook
from pfrl_like.learning.rollout import Episodes
from pfrl_like.utils.checks import warn_once

# PPO


def loss_of_lossfun(agent: Any, distribution: Any, value: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the loss that a subclass's `_lossfun` computes for PPO.

    Args:
        agent: The PPO agent.
        distribution: The model's distribution for the batch.
        value: The model's values for the batch, [N].
        batch: Minibatch whose observations are features.

    Returns:
        The scalar loss and the statistic "log_ratio". `_lossfun` itself records its losses.
    """
    old_log_prob, old_value, advantage, returns = batch.required("log_prob", "value", "advantage", "returns")
    log_prob, entropy = distribution.log_prob(batch.action), distribution.entropy()
    with within_hook(agent, batch):
        loss = call_loss_hook(
            agent, "_lossfun", entropy, value.unsqueeze(-1), log_prob, vs_pred_old=old_value.unsqueeze(-1),
            log_probs_old=old_log_prob, advs=advantage, vs_teacher=returns.unsqueeze(-1),
        )  # fmt: skip
    return loss, {"log_ratio": (log_prob - old_log_prob).detach()}


# A2C


def learn_by_update(agent: Any, episodes: Episodes) -> tuple[Tensor, dict[str, Tensor]]:
    """Call `update` of an A2C agent that overrides `update` or `_compute_returns`.

    Args:
        agent: The A2C agent. If the first argument of its `update` is named `batch`, `update` is called with a `Batch`.
            Otherwise `update` is called without arguments, as in PFRL.
        episodes: The collected steps, with features.

    Returns:
        The result of `update`. If `update` returns None, as in PFRL, the result is advantages of 0, [N], and no
        statistics.

    Raises:
        NonFiniteError: If a loss or gradient is NaN or infinite in a gradient step of this library, or if a parameter
            is NaN or infinite after the subclass's methods have run. The message says that optimiser steps that these
            methods made earlier are not rolled back.
    """
    updates, agent._override_episodes = agent.n_updates, episodes
    try:
        with checked_after_hooks(agent, {"the model": [*agent.model.parameters()]}):
            if "update" in agent._overridden_hooks and arguments_of(agent.update)[:1] == ["batch"]:
                result = agent.update(batch_of_episodes(episodes))
            else:
                _fill_rollout_attributes(agent, episodes)
                result = agent.update()
    finally:
        agent._override_episodes = None
    agent.n_updates = max(agent.n_updates, updates + 1)
    agent.t_start = agent.t
    return (torch.zeros_like(episodes.steps.reward), {}) if result is None else result


def _fill_rollout_attributes(agent: Any, episodes: Any) -> None:
    """Copy the collected steps to the attributes that PFRL's `A2C.update` reads.

    Raises:
        ValueError: If the number of steps is not `update_steps` for each of `num_processes` environments.
        TypeError: If observations are not a single array.
    """
    steps, n_steps, n_envs = episodes.steps, agent.update_steps, agent.num_processes
    ends = np.cumsum(episodes.lengths)
    if len(steps) != n_steps * n_envs or not np.isin(n_steps * np.arange(1, n_envs + 1), ends).all():
        raise ValueError(
            f"{type(agent).__name__} overrides a method of PFRL's A2C, which needs update_steps = {n_steps} steps of "
            f"each of num_processes = {n_envs} environments, got {len(steps)} steps of {len(ends)} episodes"
        )
    if not isinstance(steps.obs, Tensor):
        got = type(steps.obs).__name__
        raise TypeError(f"obs is {got}, but PFRL's update() needs a single array: override update(batch) instead")
    after = torch.cat([steps.obs, episodes.last_obs])[next_obs_rows(episodes)[n_steps - 1 :: n_steps]]
    states = torch.cat([_by_time(agent, steps.obs), after.unsqueeze(0)])
    truncated = _truncations(episodes, n_steps)
    if truncated.any():
        warn_once(
            ("A2C", "cut off"), "the update() of PFRL's A2C treats an episode that is truncated within the rollout as "
            "terminated: override update(batch) instead, which bootstraps from the last observation", UserWarning,
        )  # fmt: skip
    value = agent._with_advantages(episodes, 1.0).value
    agent.t_start = agent.t - len(steps)
    agent.states, agent.obs_shape = states.float(), states.shape[2:]
    agent.actions = _by_time(agent, steps.action).float()
    agent.action_shape = agent.actions.shape[2:]
    agent.rewards = _by_time(agent, steps.reward).clone()
    agent.masks = _by_time(agent, ((steps.discount > 0) & ~truncated).float()).clone()
    agent.value_preds = torch.cat([_by_time(agent, value), value.new_zeros(1, n_envs)])
    agent.returns = torch.zeros_like(agent.value_preds)


def episodes_of_rollout(agent: Any) -> Any:
    """Return the collected steps, read from the attributes that PFRL's `A2C.update` reads.

    `A2C.update(batch)` learns from these steps if `batch` is None.

    Raises:
        TypeError: If no subclass's `update()` is running.
    """
    stored = agent._override_episodes
    if stored is None:
        raise TypeError("batch is None, expected a Batch: only the update() of a subclass may leave out the Batch")
    n_steps, steps = agent.update_steps, stored.steps

    def rows(column: Tensor) -> Tensor:
        return column.transpose(0, 1).reshape(len(steps), *column.shape[2:])

    discount = torch.where(_truncations(stored, n_steps), steps.discount, agent.gamma * rows(agent.masks))
    env, at_end = stored.last_rows // n_steps, (stored.last_rows + 1) % n_steps == 0
    last_obs = stored.last_obs.clone()
    last_obs[at_end] = agent.states[-1, env[at_end]].to(last_obs.dtype)
    steps = steps.replace(
        obs=rows(agent.states[:-1]).to(steps.obs.dtype),
        action=rows(agent.actions).to(steps.action.dtype),
        reward=rows(agent.rewards),
        discount=discount,
    )
    episodes = dataclasses.replace(stored, steps=steps, last_obs=last_obs)
    if "_compute_returns" not in agent._overridden_hooks:
        return episodes
    with torch.no_grad():
        agent._compute_returns(agent.model(agent.states[-1])[1][:, 0])
    returns, value = rows(agent.returns[:-1]), agent._with_advantages(episodes, 1.0).value
    return dataclasses.replace(episodes, steps=steps.replace(returns=returns, value=value, advantage=returns - value))


def fill_returns(agent: Any, next_value: Tensor) -> None:
    """Compute `returns` of A2C from its `rewards`, `masks` and `value_preds`, as PFRL's `_compute_returns` does.

    Args:
        agent: The A2C agent.
        next_value: Values of the last row of `states`, [P].
    """
    agent.value_preds[-1] = agent.returns[-1] = next_value
    value = agent.value_preds
    lambd = agent.tau if agent.use_gae else 1.0
    advantage = gae(agent.rewards, agent.gamma * agent.masks, value[:-1], value[1:], agent.masks > 0, lambd)
    agent.returns[:-1] = advantage + value[:-1]


def _by_time(agent: Any, column: Tensor) -> Tensor:
    """Reshape a column to [T, P, ...].

    The rows of the column are the T steps of the first of P environments, then the steps of the second, and so on.
    """
    return column.reshape(agent.num_processes, agent.update_steps, *column.shape[1:]).transpose(0, 1)


def _truncations(episodes: Any, n_steps: int) -> Tensor:
    """Return a mask, [N]: True where an episode is truncated before the environment's last step in the rollout."""
    truncated = torch.zeros_like(episodes.steps.reward, dtype=torch.bool)
    truncated[episodes.last_rows] = (episodes.last_rows + 1) % n_steps != 0
    return truncated


# REINFORCE


def learn_by_sequences(agent: Any, episodes: Sequence[Batch]) -> None:
    """Call the methods that a subclass of REINFORCE overrides, as PFRL's `_observe_train` does.

    Args:
        agent: The REINFORCE agent.
        episodes: The episodes, with features.

    Raises:
        NonFiniteError: If a loss or gradient is NaN or infinite in a gradient step of this library, or if a parameter
            is NaN or infinite after the subclass's methods have run. The message says that optimiser steps that these
            methods made earlier are not rolled back.
    """
    try:
        with checked_after_hooks(agent, {"the model": [*agent.model.parameters()]}):
            if agent.backward_separately:
                for each in episodes:
                    _fill_sequence_attributes(agent, [each])
                    agent.accumulate_grad()
                if agent.n_backward >= agent.batchsize:
                    agent.update_with_accumulated_grad()
            else:
                _fill_sequence_attributes(agent, episodes)
                agent.batch_update()
    finally:
        _fill_sequence_attributes(agent, ())
    agent.n_updates += 1


def _fill_sequence_attributes(agent: Any, episodes: Sequence[Batch]) -> None:
    """Copy episodes to the attributes that PFRL's `REINFORCE.accumulate_grad` reads.

    These are rewards, log-probabilities and entropies, each a list of one list per episode.
    """
    agent._override_sequences = episodes
    rewards, log_probs, entropies = [], [], []
    for batch in episodes:
        distribution = policy_of(agent.model, batch)
        rewards.append([0.0, *batch.reward.tolist()])
        log_probs.append([*distribution.log_prob(batch.action).split(1)])
        entropies.append([*distribution.entropy().split(1)])
    agent.reward_sequences = rewards or [[]]
    agent.log_prob_sequences, agent.entropy_sequences = log_probs or [[]], entropies or [[]]


def accumulate_gradient(agent: Any) -> None:
    """Add the gradient of the collected episodes' loss to the parameters' gradients.

    This is the default implementation of PFRL's `REINFORCE.accumulate_grad`.

    If a subclass's method calls this function again, the model's outputs for the episodes are recomputed.

    Raises:
        TypeError: If there are no collected episodes.
    """
    episodes = agent._override_sequences
    if not episodes:
        raise TypeError("accumulate_grad was called, but no episodes are collected: only observe may call it")
    if not any(agent.log_prob_sequences):
        _fill_sequence_attributes(agent, episodes)
    if agent.n_backward == 0:
        agent.optimizer.zero_grad()
    loss: Any = 0.0
    for rewards, log_probs, entropies in zip(
        agent.reward_sequences, agent.log_prob_sequences, agent.entropy_sequences, strict=True
    ):
        log_prob, entropy = torch.cat(log_probs), torch.cat(entropies)
        returns = np.cumsum(rewards[:0:-1])[::-1].astype(np.float32)
        loss = loss - (torch.from_numpy(returns.copy()).to(log_prob) * log_prob + agent.beta * entropy).sum()
    (loss / agent.batchsize).backward()
    _fill_sequence_attributes(agent, ())
    agent._override_sequences = episodes
    agent.n_backward += 1


def step_along_gradient(agent: Any) -> None:
    """Make a step of REINFORCE's optimiser with the current gradients.

    Raises:
        NonFiniteError: If the gradient is NaN or infinite. No step is made.
    """
    agent.n_backward = 0
    params = [param for param in agent.model.parameters() if param.grad is not None]
    norm = torch.nn.utils.clip_grad_norm_(params, agent.max_grad_norm or float("inf"))
    if not bool(torch.isfinite(norm)):
        raise NonFiniteError("gradient", f"the norm of the gradient is {float(norm)}; no update was made")
    agent.optimizer.step()
