"""`ChunkSender`, which collects the steps of an acting copy in k environments and makes chunks of them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfrl_like.batch import map_nested
from pfrl_like.columns import as_array, rows_of
from pfrl_like.columns.frame_stacks import frames_of, share_frames
from pfrl_like.columns.structure import flatten, map_structure, structure_of
from pfrl_like.distributed.chunk import BoolArray, Chunk
from pfrl_like.utils.env_values import own_copy

_Index = NDArray[np.int64]


class _Call(NamedTuple):
    """Copies of the columns of one `append_batch` call, for m environments.

    Attributes:
        envs: Ids of the environments, [m].
        terminated: True where the step is terminal, [m].
        truncated: True where the episode was truncated, [m].
        observed: Columns of the observations `obs` and of further values that belong to them, keyed by name.
        next_observed: The same columns after the step.
        others: All other columns, keyed by name.
    """

    envs: _Index
    terminated: BoolArray
    truncated: BoolArray
    observed: dict[str, Any]
    next_observed: dict[str, Any]
    others: dict[str, Any]


class ChunkSender:
    """Replay buffer of an acting copy (`acting.replay_buffer`), or its `step_collector` if the agent is on-policy.

    It copies the steps that it gets, and returns all of them at the next `take`. The next observation of a step must
    be the observation of the environment's next step, as it is if an agent acts in the environment.

    Args:
        n_envs: Number k of environments. Their ids are 0 to k - 1.
    """

    prioritized = False

    def __init__(self, n_envs: int) -> None:
        self.n_envs = n_envs
        self._calls: list[_Call] = []
        # The column `truncated` of the call with an environment's newest step, and the place of the step in it.
        self._newest: dict[int, tuple[BoolArray, int]] = {}
        self._cut = np.zeros(n_envs, np.bool_)

    def __len__(self) -> int:
        return 0  # the acting copy never makes an update, because its buffer is empty

    @property
    def memory(self) -> Any:
        """Raise an error, because the steps are in the learner's process.

        Raises:
            TypeError: Always.
        """
        raise TypeError("replay_buffer.memory is not available in an actor: change the steps in the learner's process")

    def append_batch(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        next_obs: Any,
        terminated: Any,
        truncated: Any,
        env_ids: Sequence[int] | None = None,
        *,
        state: Any = None,
        next_state: Any = None,
        **extra: Any,
    ) -> None:
        """Add a step of each of m environments; see `AbstractReplayBuffer.append_batch`.

        Args:
            obs: Observations, length m.
            action: Actions, length m.
            reward: Rewards, length m.
            next_obs: Observations after the step, length m.
            terminated: True where `next_obs` is terminal, length m.
            truncated: True where the episode was truncated after the step, length m.
            env_ids: Ids of the environments, m different integers from 0 to k - 1. If None, the ids are 0 to m - 1.
            state: Recurrent states before the step, nested arrays [m, ...]. They become the column `state` of
                `Chunk.extra` and `Chunk.last_extra`.
            next_state: Recurrent states after the step, nested arrays [m, ...].
            **extra: Extra columns, each of length m.

        Raises:
            ValueError: If an id is out of range, or if the columns have different lengths.
        """
        envs = np.arange(len(reward)) if env_ids is None else np.array(env_ids, np.int64)
        m = len(envs)
        if m != len(reward) or m and not 0 <= envs.min() <= envs.max() < self.n_envs:
            expected = f"ids below {self.n_envs}, one for each of {len(reward)} rewards"
            raise ValueError(f"env_ids is {envs.tolist()}, expected {expected}")
        if m == 0:  # all environments were reset
            return
        observed, next_observed = {"obs": _columns(obs, m, "obs")}, {"obs": _columns(next_obs, m, "next_obs")}
        if state is not None:
            observed["state"], next_observed["state"] = map_nested(np.array, state), map_nested(np.array, next_state)
        columns = {"action": action, "reward": reward, **extra}
        others = {name: _column(values, m, name) for name, values in columns.items()}
        call = _Call(
            envs, np.array(terminated, np.bool_), np.array(truncated, np.bool_), observed, next_observed, others
        )
        self._calls.append(call)
        self._newest |= {env: (call.truncated, i) for i, env in enumerate(envs.tolist())}

    def stop_current_episode(self, env_id: int = 0) -> None:
        """End the running episode of an environment: its newest step is marked as truncated.

        If that step has been sent, `cut` of the next chunk is True for this environment.
        """
        if env_id not in self._newest:
            self._cut[env_id] = True
            return
        truncated, place = self._newest[env_id]
        truncated[place] = True

    def take(self) -> Chunk | None:
        """Return all steps since the last call as a chunk. None if there are no steps.

        Raises:
            ValueError: If the values of a column have different shapes.
        """
        calls, self._calls, self._newest = self._calls, [], {}
        if not calls:
            return None
        envs = np.concatenate([call.envs for call in calls])
        ticks = np.repeat(np.arange(len(calls)), [len(call.envs) for call in calls])
        terminated = np.concatenate([call.terminated for call in calls])
        truncated = np.concatenate([call.truncated for call in calls])
        rows, active = _rows(ticks, envs, (len(calls), self.n_envs))
        previous, has_last = _links(envs, terminated | truncated)
        structure, _ = structure_of(calls[0].observed)
        parts, next_parts = (
            [[leaf for _, leaf in flatten(nested, structure, "observed")] for nested in column]
            for column in ([call.observed for call in calls], [call.next_observed for call in calls])
        )
        both = zip(zip(*parts, strict=True), zip(*next_parts, strict=True), strict=True)
        pairs = [_observed(*leaves, previous, has_last, rows) for leaves in both]
        observed, last = (map_structure(lambda i: pairs[i][part], structure) for part in (0, 1))  # noqa: B023
        names = dict.fromkeys(name for call in calls for name in call.others)
        columns = {
            name: _joined([call.others.get(name, [None] * len(call.envs)) for call in calls])[rows] for name in names
        }
        cut, self._cut = self._cut, np.zeros(self.n_envs, np.bool_)
        return Chunk(
            obs=observed.pop("obs"), action=columns.pop("action"), reward=columns.pop("reward"),
            terminated=terminated[rows] & active, truncated=truncated[rows] & active, last_obs=last.pop("obs"),
            active=None if active.all() else active, extra={**columns, **observed}, last_extra=last,
            cut=cut if cut.any() else None,
        )  # fmt: skip


def _columns(values: Any, count: int, name: str) -> Any:
    """Return copies of `count` observations: an array, a list of stacks or objects, or a dict or tuple of these."""
    if isinstance(values, Mapping):
        return {key: _columns(part, count, f"{name}[{key!r}]") for key, part in values.items()}
    if isinstance(values, tuple) and len(values) != count:
        return tuple(_columns(part, count, f"{name}[{i}]") for i, part in enumerate(values))
    if isinstance(values, list | tuple) and count and isinstance(values[0], Mapping | tuple):
        structure, _ = structure_of(values[0])
        rows = [[part for _, part in flatten(value, structure, name)] for value in values]
        parts = [list(part) for part in zip(*rows, strict=True)]
        return map_structure(lambda i: _column(parts[i], count, name), structure)
    return _column(values, count, name)


def _column(values: Any, count: int, name: str) -> Any:
    """Return copies of `count` values: an array, or a list if they are stacks of frames, nested, or objects."""
    if isinstance(values, np.ndarray) and values.dtype != object and len(values) == count:
        return values.copy()
    rows = rows_of(values, count, name)
    if count and frames_of(rows[0]) is not None:
        return rows  # frames do not change
    is_nested = any(row is None or isinstance(row, Mapping | tuple) for row in rows)
    array = None if is_nested else as_array(rows)
    return own_copy(rows) if array is None else array


def _rows(ticks: _Index, envs: _Index, shape: tuple[int, int]) -> tuple[_Index, BoolArray]:
    """Return the number of the step in each row of the chunk, [T, k], and a mask that is True where there is a step.

    A row without a step has the number of the environment's next step, or of its last step.
    """
    rows = np.full(shape, -1)
    rows[ticks, envs] = np.arange(len(envs))
    active = rows >= 0
    if not active.all():
        for t in range(len(rows) - 2, -1, -1):
            rows[t] = np.where(active[t], rows[t], rows[t + 1])
        for t in range(1, len(rows)):
            rows[t] = np.where(rows[t] < 0, rows[t - 1], rows[t])
    return np.maximum(rows, 0), active


def _links(envs: _Index, ended: BoolArray) -> tuple[_Index, BoolArray]:
    """Return the number of each step's previous step of the same episode, or -1, and a mask of the last steps.

    The mask is True for steps that end an episode, and for the newest step of each environment.
    """
    order = np.argsort(envs, kind="stable")
    is_last = ended[order]
    is_last |= np.diff(envs[order], append=-1) != 0
    before = np.roll(order, 1)
    before[np.roll(is_last, 1)] = -1
    previous, has_last = np.empty_like(order), np.empty_like(ended)
    previous[order], has_last[order] = before, is_last
    return previous, has_last


def _observed(
    parts: Sequence[Any], next_parts: Sequence[Any], previous: _Index, has_last: BoolArray, rows: _Index
) -> Any:
    """Return a column [T, k, ...] of observations, and the observations after the last steps, [m, ...].

    Args:
        parts: Column of each call, or None.
        next_parts: Column of each call after the step, or None.
        previous: Number of the previous step of each of the N steps, or -1.
        has_last: True for the steps whose next observations are returned, [N].
        rows: Number of the step in each row of the chunk, [T, k].
    """
    if parts[0] is None:
        return None, None
    joined, lasts, which = _joined(parts), _joined(next_parts), np.flatnonzero(has_last)
    shared = share_frames([*joined, *lasts[which]], [*previous.tolist(), *which.tolist()])
    if shared is not None:
        return shared[rows], shared[len(joined) :]
    return joined[rows], lasts[which]


def _joined(parts: Sequence[Any]) -> Any:
    """Join the columns of the calls to an array [N, ...], or to an array of N objects."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    values = [value for part in parts for value in part]
    return np.fromiter(values, object, len(values))
