"""Chunks of steps: agents take them in from acting copies, and acting copies of on-policy agents record them."""

import dataclasses
import types
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.batch import ACTION_MASK, concatenate_nested, map_nested
from pfrl_like.distributed.chunk import Chunk
from pfrl_like.learning.acting import ValueActionSelector
from pfrl_like.learning.recurrent_memory import batch_first
from pfrl_like.learning.rollout import BootstrapInputs, Rows
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.replay_buffers.chunks import PRIORITY
from pfrl_like.utils.contexts import evaluation_mode


def count_step(agent: Any, n_steps: int = 1) -> None:
    """Count training steps whose transitions other code has stored, for example the learner's poller."""
    agent.t += n_steps
    agent._cumulative_steps += n_steps


def observe_replay_chunk(agent: Any, chunk: Chunk, env_ids: Sequence[Any] | None = None) -> None:
    """Store the steps of an acting copy in the replay buffer, and count them. No update is made.

    Args:
        agent: The agent.
        chunk: Steps of k environments.
        env_ids: Ids of the k environments, hashable objects. If None, the ids are 0 to k - 1.
    """
    append_to_buffer(agent.replay_buffer, chunk, env_ids)
    count_step(agent, chunk.n_steps)


def append_to_buffer(buffer: Any, chunk: Chunk, env_ids: Sequence[Any] | None = None) -> None:
    """Store the steps of a chunk in a buffer, which may be a user's buffer without the method `append_chunk`."""
    kind = type(buffer) if hasattr(buffer, "append_chunk") else AbstractReplayBuffer
    kind.append_chunk(buffer, chunk, env_ids)


def with_priorities(agent: Any, chunk: Chunk) -> Chunk:
    """Return a chunk with the column `priority`: the TD errors |r + gamma * max Q(s', .) - Q(s, a)| of its steps.

    Q is the acting network, which also takes the place of the target network (Ape-X, arXiv:1803.00933, section 3). The
    call does not change the random generators.

    Args:
        agent: The acting copy.
        chunk: T steps of k environments.

    Returns:
        The chunk. The column is missing if the errors cannot be computed with one evaluation of the acting network: if
        it is a policy or is recurrent, if a subclass selects the actions itself, or if the steps have action masks.
    """
    is_simple = isinstance(getattr(agent, "_selector", None), ValueActionSelector) and agent.recurrent_memory is None
    if not is_simple or agent._acting_hook in agent._overridden_hooks or ACTION_MASK in chunk.extra:
        return chunk
    obs = chunk.joined_values()
    padding = np.zeros((len(obs) - chunk.reward.size, *chunk.action.shape[2:]), chunk.action.dtype)
    actions = np.concatenate([chunk.action.reshape(-1, *chunk.action.shape[2:]), padding])
    with isolated_rng(), torch.inference_mode(), evaluation_mode(agent.model):
        value = agent._value(agent.features(obs, agent.device))
        q, best = (each.double().numpy() for each in (value.evaluate_actions(torch.from_numpy(actions)), value.max))
    target = chunk.reward + agent.gamma * ~chunk.terminated * best[chunk.next_index]
    errors = np.abs(target - q[: chunk.reward.size].reshape(chunk.reward.shape))
    return dataclasses.replace(chunk, extra={**chunk.extra, PRIORITY: errors})


# On-policy agents


def acting_columns(distribution: Any, value: Any, actions: Any) -> dict[str, Tensor]:
    """Return the columns `log_prob`, `entropy` and `value` of a step, each [k]. Without values, `value` is left out.

    Args:
        distribution: Distribution of the actions, of batch shape [k].
        value: State values, [k, 1]. None if the model returns no values.
        actions: Selected actions, an array [k, ...].
    """
    entropy = distribution.entropy()
    columns = {"log_prob": distribution.log_prob(torch.as_tensor(actions, device=entropy.device)), "entropy": entropy}
    return columns if value is None else {**columns, "value": value.squeeze(-1)}


def send_step(agent: Any, next_obs: Any, reward: Any, terminated: Any, ended: Any, active: Any) -> None:
    """Pass the last step of an acting copy to its `step_collector`.

    Args:
        agent: The acting copy.
        next_obs: Observations after the step, length k.
        reward: Rewards, [k].
        terminated: True where the step is terminal, [k].
        ended: True where the step ends an episode, [k].
        active: False for environments that took no step, [k]. None if all environments took a step.
    """
    columns: dict[str, Any] = {
        "obs": agent.batch_last_obs, "action": np.asarray(agent.batch_last_action), "reward": reward,
        "next_obs": next_obs, "terminated": terminated, "truncated": ended & ~terminated,
        **{name: values.numpy() for name, values in agent._last_acting_columns.items()},
    }  # fmt: skip
    if agent._last_mask is not None:
        columns[ACTION_MASK] = np.asarray(agent._last_mask, np.bool_)
    memory = agent.recurrent_memory
    if memory is not None:
        states = memory.train_previous_state, memory.train_state
        for name, state in zip(("state", "next_state"), states, strict=True):
            columns[name] = map_nested(lambda leaf: leaf.numpy(), batch_first(state, memory.train_state))
    env_ids = np.arange(len(reward))
    if active is not None and not np.all(active):
        env_ids = np.flatnonzero(active)
        columns = {name: _rows_of(values, env_ids) for name, values in columns.items()}
    agent.step_collector.append_batch(**columns, env_ids=env_ids.tolist())
    count_step(agent, len(env_ids))


def _rows_of(values: Any, rows: Rows) -> Any:
    """Return some rows of an array, a list of observations, or a nested tuple of arrays."""
    if isinstance(values, list):
        return [values[i] for i in rows]
    return map_nested(lambda leaf: leaf[rows], values)


class LastInputs:
    """Bootstrap inputs of the running episodes of several acting copies, in the form of `BootstrapInputs`.

    Args:
        others: Function that returns the inputs of the environments without an entry in `inputs`.

    Attributes:
        inputs: Features of the last observation and recurrent state before it, tensors [1, ...], for each environment.
    """

    def __init__(self, others: BootstrapInputs) -> None:
        self.inputs: dict[int, tuple[Any, Any]] = {}
        self.others = others

    def __call__(self, env_ids: Rows) -> tuple[Any, Any]:
        parts = [self.inputs.get(env) or self.others(np.array([env])) for env in env_ids.tolist()]
        obs, states = zip(*parts, strict=True)
        return concatenate_nested(obs), concatenate_nested(states)


def observe_rollout_chunk(agent: Any, chunk: Chunk, env_ids: Sequence[int] | None = None) -> None:
    """Add the steps of an acting copy to the collected steps. No update is made: if `is_due`, the caller makes it.

    Args:
        agent: The agent.
        chunk: Steps of k environments.
        env_ids: Indices of the k environments among the environments of all acting copies. If None, the indices are 0
            to k - 1.

    Raises:
        ValueError: If the shape of a value differs from earlier steps.
    """
    ids = np.arange(chunk.n_envs) if env_ids is None else np.array(env_ids, np.int64)
    if not isinstance(agent._bootstrap_inputs, LastInputs):
        agent._bootstrap_inputs = LastInputs(agent._bootstrap_inputs)
    last_inputs = agent._bootstrap_inputs
    if chunk.cut is not None:
        agent._end_running(ids[chunk.cut])
    obs, last_obs = chunk.obs_values()
    steps = np.nonzero(chunk.active_rows)
    envs, terminated, ended = ids[steps[1]], chunk.terminated[steps], (chunk.terminated | chunk.truncated)[steps]
    added = agent._rollout.append(envs, ended, **_columns(agent, chunk, obs, terminated))

    last = np.flatnonzero(chunk.has_last[steps])
    inputs = agent.features(last_obs, agent.device), _tensors(agent, chunk.last_extra.get("state"))
    truncated = ended[last] & ~terminated[last]
    for i in np.flatnonzero(~ended[last]).tolist():
        last_inputs.inputs[envs.item(last[i])] = _at(inputs, [i])
    if truncated.any():
        agent._bootstrap_inputs = lambda _: _at(inputs, np.flatnonzero(truncated))
        agent._truncate(envs[last[truncated]], added[last[truncated]])
        agent._bootstrap_inputs = last_inputs
    if "entropy" in chunk.extra:
        entropy, value = (_tensors(agent, chunk.rows(chunk.extra.get(name))) for name in ("entropy", "value"))
        recorded = types.SimpleNamespace(entropy=lambda: entropy)
        agent._record_acting(recorded, None if value is None else value.unsqueeze(-1), slice(None))
    count_step(agent, len(envs))


def _columns(agent: Any, chunk: Chunk, obs: Any, terminated: Any) -> dict[str, Any]:
    """Return the columns of a chunk for the rollout, [N, ...]. `obs` are N observations."""
    columns = {
        "obs": agent.features(obs, agent.device), "action": torch.from_numpy(chunk.rows(chunk.action)),
        "reward": torch.from_numpy(chunk.rows(chunk.reward).astype(np.float32)),
        "terminated": torch.from_numpy(terminated),
    }  # fmt: skip
    names = [name for name in ("state", *agent._acting_columns) if chunk.extra.get(name) is not None]
    columns |= {name: _tensors(agent, chunk.rows(chunk.extra[name])) for name in names}
    if ACTION_MASK in chunk.extra:
        masks = chunk.rows(chunk.extra[ACTION_MASK])
        if masks.dtype == object:  # a step without a mask allows all actions
            all_allowed = np.ones_like(next(mask for mask in masks if mask is not None))
            masks = np.stack([all_allowed if mask is None else mask for mask in masks])
        columns[ACTION_MASK] = torch.from_numpy(masks)
    return columns


def _tensors(agent: Any, nested: Any) -> Any:
    return map_nested(lambda leaf: torch.tensor(leaf, device=agent.device), nested)


def _at(inputs: tuple[Any, Any], index: Any) -> tuple[Any, Any]:
    obs, state = (map_nested(lambda leaf: leaf[index], part) for part in inputs)
    return obs, state
