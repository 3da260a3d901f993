"""Updates of A3C and ACER agents whose subclass overrides methods of PFRL's agents."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from pfrl_like.batch import Batch, concatenate_nested, map_nested
from pfrl_like.distributions import with_parameters
from pfrl_like.errors import NonFiniteError
from pfrl_like.learning.model_outputs import allowed
from pfrl_like.learning.overrides.hooks import arguments_of
from pfrl_like.learning.overrides.off_policy import call_loss_hook, checked_after_hooks, within_hook
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.utils.copy_param import copy_grad
from pfrl_like.utils.recurrent import forward, get_recurrent_state_at, max_over_sequences

#: Names of the methods that PFRL's ACER calls in an update, on-policy or from replay.
_UPDATE = frozenset(["update", "compute_loss", "compute_one_step_pi_loss"])


def learn_from_steps(agent: Any, batch: Batch, raw_obs: list[Any], env: int) -> None:
    """Call the methods of PFRL that a subclass overrides, after `t_max` steps or at the end of an episode.

    Args:
        agent: An A3C or ACER agent.
        batch: The steps, with features.
        raw_obs: The observations of the steps before `phi`.
        env: Index of the environment.

    Raises:
        NonFiniteError: If a loss or gradient is NaN or infinite in a gradient step of this library, or if a parameter
            is NaN or infinite after the subclass's methods have run. The message says that optimiser steps that these
            methods made earlier are not rolled back. The attribute `batch` of the error contains the steps.
    """
    agent.t_start = agent.t - len(batch)
    agent.past_rewards = _by_time(agent.t_start, batch.reward.tolist())
    agent.past_obs = _by_time(agent.t_start, raw_obs)
    agent.past_action = agent.past_actions = _by_time(agent.t_start, batch.action)
    agent.past_recurrent_state = {agent.t_start: batch.recurrent_state}
    memory, agent.recurrent_memory = agent.recurrent_memory, copy.copy(agent.recurrent_memory)
    agent.train_recurrent_states = get_recurrent_state_at(agent.train_recurrent_states, [env], detach=True)
    statevar = map_nested(lambda leaf: leaf[-1:], batch.next_obs) if batch.discount[-1] else None
    try:
        _learn(agent, batch, lambda: agent._learn_by_hooks(statevar), 0 if agent.disable_online_update else 1)
    finally:
        agent.recurrent_memory = memory
        forget_steps(agent)
    for _ in range(agent.n_times_replay):
        agent.update_from_replay()


def _learn(agent: Any, batch: Batch, hooks: Callable[[], Any], min_updates: int = 1) -> None:
    """Call `hooks`. This function calls the subclass's methods, which learn from a batch of features.

    If this library's `learn` was not called, add the number of updates, at least `min_updates`, to `optim_t`.
    """
    updates, agent._override_updates = agent.optim_t, 0
    stats = _loss(agent, batch)[2]
    try:
        params = {"the model": [*agent.shared_model.parameters()]}
        with within_hook(agent, batch), checked_after_hooks(agent, params):
            hooks()
    except NonFiniteError as error:
        if error.batch is None:
            agent.logger.error("update %d was rejected: %s", agent.optim_t + 1, error)
            error.batch = batch
        raise
    if agent.optim_t == updates:  # this library's `learn`, which counts updates, was not called
        n_updates = max(agent._override_updates, min_updates)
        agent.optim_t += n_updates
        for name in ("value", "entropy"):
            if n_updates and name in stats:
                setattr(agent, f"average_{name}", agent._running_mean(name, stats[name]))


def _loss(agent: Any, batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Return the result of `agent.loss` for a batch of features. The random generators keep their states."""
    with isolated_rng():
        loss: tuple[Tensor, Tensor, dict[str, Tensor]] = agent.loss(batch)
    return loss


def update_takes_batch(agent: Any) -> bool:
    """Return True if the subclass overrides `update` and the first argument of its `update` is named `batch`."""
    return "update" in agent._overridden_hooks and arguments_of(agent.update)[:1] == ["batch"]


def batch_of_steps(agent: Any, statevar: Any) -> Batch:
    """Return the steps of the running update, read from the agent's `past_obs`, `past_action` and `past_rewards`.

    Args:
        agent: An A3C or ACER agent.
        statevar: Features of the last observation, tensors [1, ...], or None if the last observation is terminal. Or a
            `Batch`, which is returned unchanged.

    Raises:
        TypeError: If no method of a subclass is running.
    """
    if isinstance(statevar, Batch):
        return statevar
    steps: Batch = agent._override_batch
    if steps is None or not agent.past_rewards:
        raise TypeError(f"batch is {type(statevar).__name__}, expected a Batch: only a subclass's method may omit it")
    times = range(agent.t_start, agent.t)
    obs = agent.features([agent.past_obs[time] for time in times], agent.device)
    last = map_nested(lambda leaf: leaf[-1:], steps.next_obs) if statevar is None else statevar
    discount = torch.full_like(steps.discount, agent.gamma)
    discount[-1] *= statevar is not None
    return steps.replace(
        obs=obs,
        action=torch.stack([torch.as_tensor(agent.past_action[time]) for time in times]),
        reward=torch.tensor([float(agent.past_rewards[time]) for time in times]),
        next_obs=concatenate_nested([map_nested(lambda leaf: leaf[1:], obs), last]),
        discount=discount,
    )


def forget_steps(agent: Any) -> None:
    """Clear the attributes of the last steps, as PFRL's `init_history_data_for_online_update` does."""
    agent.past_obs, agent.past_action, agent.past_recurrent_state = {}, {}, {}
    agent.past_actions, agent.past_rewards, agent.past_values = {}, {}, {}
    agent.past_action_distrib, agent.past_action_values, agent.past_avg_action_distrib = {}, {}, {}
    agent.t_start = agent.t


# ACER


def update_on_policy(agent: Any, statevar: Any) -> None:
    """Update ACER with the last steps. This is the default implementation of PFRL's `update_on_policy`.

    Args:
        agent: The ACER agent.
        statevar: Features of the last observation, tensors [1, ...], or None if the last observation is terminal. Or a
            `Batch` with the steps to learn from.
    """
    if agent.disable_online_update:
        return
    batch = batch_of_steps(agent, statevar)
    if update_takes_batch(agent):
        agent.update(batch)
    elif _UPDATE.isdisjoint(agent._overridden_hooks):
        agent.learn(batch)
    else:
        agent.update(
            t_start=agent.t_start, t_stop=agent.t, R=float(agent._last_value(batch)), actions=agent.past_actions,
            rewards=agent.past_rewards, values=agent.past_values, action_values=agent.past_action_values,
            action_distribs=agent.past_action_distrib, action_distribs_mu=None,
            avg_action_distribs=agent.past_avg_action_distrib,
        )  # fmt: skip


def store_model_outputs(agent: Any) -> None:
    """Compute the models' outputs for the last steps, and store them in the attributes of PFRL's ACER."""
    outputs = _outputs(agent, agent._override_batch, agent.t_start)
    agent.past_values, agent.past_action_values = outputs["values"], outputs["action_values"]
    agent.past_action_distrib = outputs["action_distribs"]
    agent.past_avg_action_distrib = outputs["avg_action_distribs"]


def update_from_sequence(agent: Any, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """Update ACER from replay. Call the methods of PFRL that a subclass overrides, or `update` if there are none.

    Args:
        agent: The ACER agent.
        batch: A sequence of raw observations.

    Returns:
        The result of `update` if no subclass overrides a method of PFRL. Otherwise the largest error of the state
        values after the update, [1], and an empty dict of statistics.
    """
    if _UPDATE.isdisjoint(agent._overridden_hooks):
        result: tuple[Tensor, dict[str, Tensor]] = agent.update(batch)
        return result
    features = batch
    if not agent.features.is_identity:
        obs, next_obs = (agent.features.on_batch(each, agent.device) for each in (batch.obs, batch.next_obs))
        features = batch.replace(obs=obs, next_obs=next_obs)
    _learn(agent, features, lambda: _update_from_replay(agent))
    assert batch.lengths is not None
    return max_over_sequences(_loss(agent, features)[1].detach(), batch.lengths), {}


def _update_from_replay(agent: Any) -> None:
    batch: Batch = agent._override_batch
    if update_takes_batch(agent):
        agent.update(batch)
        return
    outputs = _outputs(agent, batch, 0)
    mu = (batch.extra or {})["mu"]
    behaviours = {
        i: allowed(with_parameters(each, *(part[i : i + 1] for part in mu)), _mask_of(batch, i))
        for i, each in outputs["action_distribs"].items()
    }
    agent.update(
        t_start=0, t_stop=len(batch), R=float(agent._last_value(batch)), actions=_by_time(0, batch.action),
        rewards=_by_time(0, batch.reward.tolist()), action_distribs_mu=behaviours, **outputs,
    )  # fmt: skip


def step_on_compute_loss(agent: Any, steps: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Make a gradient step on `compute_loss`. This is the default implementation of PFRL's ACER `update`.

    If a subclass's method calls this function again, the models' outputs for the steps are recomputed.

    Args:
        agent: The ACER agent.
        steps: Arguments of PFRL's `update`, keyed by name.

    Returns:
        An empty tensor of errors, [0], and the loss.

    Raises:
        TypeError: If no method of a subclass is running.
    """
    if agent._override_batch is None:
        raise TypeError(f"update got {', '.join(steps)}, expected a batch: only a subclass's method may pass these")
    if agent._override_updates:  # the first backward pass has freed the graph
        steps = {**steps, **_outputs(agent, agent._override_batch, steps["t_start"])}
    loss = call_loss_hook(agent, "compute_loss", **steps)
    agent._step_shared(loss)
    copy_grad(agent.shared_model, agent.model)  # as PFRL does
    agent._override_updates += 1
    return loss.new_zeros(0), {"loss": loss.detach()}


def _outputs(agent: Any, batch: Batch, t_start: int) -> dict[str, dict[int, Any]]:
    """Return the models' outputs for a sequence, keyed by PFRL's argument name and then by time from `t_start`."""
    distributions, action_values, values, averages = [], [], [], []
    state = average_state = batch.recurrent_state
    for i in range(len(batch)):
        obs = map_nested(lambda leaf: leaf[i : i + 1], batch.obs)  # noqa: B023 - called immediately
        outputs, state = forward(agent.model, obs, state)
        with torch.no_grad():
            average, average_state = forward(agent.shared_average_model, obs, average_state)
        mask = _mask_of(batch, i)
        distributions.append(allowed(outputs[0], mask))
        action_values.append(outputs[1])
        values.append(agent._state_value(outputs, mask))
        averages.append(allowed(average[0], mask))
    named = {
        "values": values,
        "action_values": action_values,
        "action_distribs": distributions,
        "avg_action_distribs": averages,
    }
    return {name: _by_time(t_start, column) for name, column in named.items()}


def _mask_of(batch: Batch, i: int) -> Tensor | None:
    return None if batch.action_mask is None else batch.action_mask[i : i + 1]


def _by_time(t_start: int, column: Any) -> dict[int, Any]:
    return dict(enumerate(column, t_start))
