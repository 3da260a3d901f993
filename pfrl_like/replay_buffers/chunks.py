"""Storage of chunks in the columns of a replay buffer."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pfrl_like.columns import Indices
from pfrl_like.columns.chunks import StepColumns, append_steps
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.checks import check_finite

#: Column of chunks with the absolute TD errors of the steps.
PRIORITY = "priority"


def append_chunk(buffer: Any, chunk: Any, env_ids: Sequence[Any] | None = None) -> None:
    """Store the steps of a chunk, in (t, environment) order. The result is that of one `append_batch` call for each t.

    Args:
        buffer: The buffer, a `ReplayBuffer`.
        chunk: A `distributed.chunk.Chunk` of T steps of k environments; it is copied. A `PrioritizedReplayBuffer`
            computes the first priorities of the items that begin with these steps from the column `priority`, the
            absolute TD errors of the steps. Other buffers ignore this column.
        env_ids: Ids of the k environments, hashable objects. If None, the ids are 0 to k - 1.

    Raises:
        NonFiniteError: If a priority is NaN or infinite, or if a reward is NaN, infinite or too large for float32.
        ValueError: If a value does not have the shape and type of the first transition.
    """
    chunk, errors = chunk.without(PRIORITY)
    kind = type(buffer)
    is_chunked = (kind.append_batch, kind.stop_current_episode) == buffer._chunked_methods
    if not is_chunked or buffer._user_memory is not None:
        AbstractReplayBuffer.append_chunk(buffer, chunk, env_ids)
        return
    ids = range(chunk.n_envs) if env_ids is None else env_ids
    if len(set(ids)) != chunk.n_envs or len(ids) != chunk.n_envs:
        raise ValueError(f"env_ids is {list(ids)}, expected {chunk.n_envs} different ids")
    if errors is not None:
        check_finite(PRIORITY, errors)
    for env_id in chunk.cut_ids(ids):
        buffer.stop_current_episode(env_id)
    if buffer._resumed:
        envs, obs = chunk.first_obs()
        buffer._end_interrupted(obs, [ids[env] for env in envs], len(envs))
    _store(buffer, chunk, ids, errors)


def _store(buffer: Any, chunk: Any, env_ids: Sequence[Any], errors: Any) -> None:
    columns = buffer._columns
    _, envs = steps = np.nonzero(chunk.active_rows)
    ended = (chunk.terminated | chunk.truncated)[steps]
    index = np.arange(chunk.reward.size).reshape(chunk.reward.shape)
    waiting = {env: list(columns.running[i].waiting) if i in columns.running else [] for env, i in enumerate(env_ids)}
    rows = append_steps(
        columns,
        StepColumns(
            obs=chunk.joined_obs(), obs_index=index[steps], next_index=chunk.next_index[steps],
            action=chunk.rows(chunk.action), reward=chunk.reward[steps], terminal=chunk.terminated[steps], ended=ended,
            env=envs, env_ids=env_ids, extra={name: values[steps] for name, values in chunk.extra.items()},
        ),
    )  # fmt: skip
    if errors is not None and hasattr(buffer, "_set_first_errors"):
        buffer._set_first_errors(rows, errors)
    if buffer._horizon == 1:
        buffer._add_items(rows)
        return
    try:
        _queue(buffer, rows, envs, ended, waiting)
    finally:  # a user's function of priorities may raise an error
        for env, left in waiting.items():
            if env_ids[env] in columns.running:
                columns.running[env_ids[env]].waiting = left


def _queue(buffer: Any, rows: Indices, envs: Indices, ended: Any, waiting: dict[int, list[int]]) -> None:
    """Add the items that are complete. `waiting` are the rows of each environment that no item begins with yet."""
    items: list[int] = []
    windows: list[tuple[int, int, int]] = []  # first row, last row, number of steps
    for row, env, is_last in zip(rows.tolist(), envs.tolist(), ended.tolist(), strict=True):
        queue = waiting[env]
        queue.append(row)
        if len(queue) == buffer._horizon:
            items.append(queue[0])
            windows.append((queue.pop(0), row, buffer.num_steps))
        if is_last and queue:
            windows += [(first, row, len(queue) - i) for i, first in enumerate(queue)]
            if buffer._horizon == np.inf:  # each episode is added by a call of its own
                _add(buffer, queue, windows)
                windows = []
            else:
                items += queue
            waiting[env] = []
    if items:
        _add(buffer, items, windows)


def _add(buffer: Any, items: list[int], windows: list[tuple[int, int, int]]) -> None:
    if buffer.num_steps > 1:
        buffer._columns.set_windows(*np.array(windows).T)
    buffer._add_items(items)
