"""`Chunk`, the message in which acting copies send steps: T steps of each of k environments, as columns."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.batch import map_nested
from pfrl_like.columns.frame_stacks import FrameStacks
from pfrl_like.columns.structure import flatten, map_structure, structure_of

BoolArray = NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, eq=False)
class Chunk:
    """T steps of each of k environments, as columns. `ChunkSender` makes chunks, `append_chunk` stores them.

    A column is an array or a nested dict or tuple of arrays. Stacks of frames are `FrameStacks`, which support the same
    indexing and `np.asarray`. A column in which a step has no value is an array of objects with None in its place.

    The next observation of a step is the observation of the next row, `obs[t + 1]`, unless the step ends an episode or
    is the environment's last step in the chunk: then it is in `last_obs`.

    Attributes:
        obs: Raw observations, before `phi`, [T, k, ...].
        action: Actions, [T, k, ...].
        reward: Rewards, [T, k].
        terminated: True where the step ends in a terminal state, bool [T, k].
        truncated: True where the episode was truncated after the step, bool [T, k].
        last_obs: Observations after the m steps where `has_last` is True, in (t, environment) order, [m, ...].
        active: False where an environment took no step, for example because it was only reset, bool [T, k]. The values
            of all other columns are arbitrary there. None if all environments took all steps.
        extra: Further columns, [T, k, ...], keyed by name, for example `action_mask`, `log_prob` or `value`.
        last_extra: Further columns of `last_obs`, [m, ...], for example the recurrent `state` of on-policy agents.
        cut: True for an environment whose running episode was ended between the previous chunk and this chunk, bool
            [k]. None if there is no such environment.
    """

    obs: Any
    action: Any
    reward: NDArray[Any]
    terminated: BoolArray
    truncated: BoolArray
    last_obs: Any
    active: BoolArray | None = None
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    last_extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    cut: BoolArray | None = None

    @property
    def n_envs(self) -> int:
        """Number k of environments."""
        return int(self.reward.shape[1])

    @property
    def n_steps(self) -> int:
        """Number of steps, without the rows where an environment took no step."""
        return int(self.reward.size if self.active is None else np.count_nonzero(self.active))

    @property
    def nbytes(self) -> int:
        """Number of bytes of all arrays. Frames that `obs` and `last_obs` share are counted once."""
        sizes: dict[int, int] = {}

        def add(leaf: Any) -> None:
            if isinstance(leaf, FrameStacks):
                add(leaf.frames)
                add(leaf.index)
            elif isinstance(leaf, np.ndarray) and leaf.dtype == object:
                map_nested(add, leaf.ravel().tolist())
            else:
                sizes[id(leaf)] = getattr(leaf, "nbytes", 0)

        columns = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        map_nested(add, columns)
        return sum(sizes.values())

    @property
    def active_rows(self) -> BoolArray:
        """`active`, or an array of True if `active` is None; bool [T, k]."""
        return np.ones(self.reward.shape, np.bool_) if self.active is None else self.active

    @property
    def has_last(self) -> BoolArray:
        """True for the steps whose next observation is in `last_obs`, bool [T, k]."""
        steps = self.active_rows
        later = np.logical_or.accumulate(steps[::-1])[::-1]  # True if the row or a later row is a step
        is_newest = steps.copy()
        is_newest[:-1] &= ~later[1:]
        has_last: BoolArray = (self.terminated | self.truncated) & steps | is_newest
        return has_last

    @property
    def next_index(self) -> NDArray[np.int64]:
        """Rows of the next observations in `joined_obs`, [T, k]. Arbitrary where an environment took no step."""
        n_rows, has_last = self.reward.size, self.has_last
        index = np.minimum(np.arange(n_rows) + self.n_envs, n_rows - 1).reshape(self.reward.shape)
        index[has_last] = n_rows + np.arange(np.count_nonzero(has_last))
        return index

    def next_obs(self) -> Any:
        """Return the complete next observations, [T, k, ...]. They are arbitrary where an environment took no step."""
        index = self.next_index
        return map_nested(lambda leaf: leaf[index], self.joined_obs())

    def joined_obs(self) -> Any:
        """Return the observations of all T * k rows, in (t, environment) order, then `last_obs`: [T * k + m, ...]."""
        return _joined(self.obs, self.last_obs)

    def rows(self, column: Any) -> Any:
        """Return the values of the active steps of a column, in (t, environment) order, [n_steps, ...]."""
        index = np.nonzero(self.active_rows)
        return map_nested(lambda leaf: leaf[index], column)

    def obs_values(self) -> tuple[Any, Any]:
        """Return copies of the observations of the active steps and of `last_obs`, each as a sequence."""
        n_rows, obs = self.reward.size, map_nested(_as_objects, self.joined_obs())
        last = np.arange(n_rows, n_rows + np.count_nonzero(self.has_last))
        return _values(obs, np.flatnonzero(self.active_rows)), _values(obs, last)

    def joined_values(self) -> Any:
        """Return copies of the observations of `joined_obs`, as a sequence."""
        n_rows = self.reward.size + np.count_nonzero(self.has_last)
        return _values(map_nested(_as_objects, self.joined_obs()), np.arange(n_rows))

    def first_obs(self) -> tuple[list[int], Any]:
        """Return the environments that took a step, and the first observation of each of them, a sequence."""
        envs = np.flatnonzero(self.active_rows.any(axis=0))
        first = self.active_rows.argmax(axis=0)[envs]
        return envs.tolist(), _values(map_nested(_as_objects, self.joined_obs()), first * self.n_envs + envs)

    def without(self, name: str) -> tuple["Chunk", Any]:
        """Return the chunk without an extra column, and the values of its active steps, [n_steps, ...], or None."""
        if name not in self.extra:
            return self, None
        rest = {key: column for key, column in self.extra.items() if key != name}
        return dataclasses.replace(self, extra=rest), self.rows(self.extra[name])

    def cut_ids(self, env_ids: Sequence[Any] | None = None) -> list[Any]:
        """Return the ids of the environments where `cut` is True. `env_ids` are the ids of all k environments."""
        cut = [] if self.cut is None else np.flatnonzero(self.cut).tolist()
        return cut if env_ids is None else [env_ids[i] for i in cut]

    def steps(self, env_ids: Sequence[Any] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the arguments of `append_batch`, as copies, for each t at which an environment took a step.

        Args:
            env_ids: Ids of the k environments. If None, the ids are 0 to k - 1.
        """
        obs, next_index = map_nested(_as_objects, self.joined_obs()), self.next_index
        ids = range(self.n_envs) if env_ids is None else env_ids
        for t in range(len(self.reward)):
            envs = np.flatnonzero(self.active_rows[t])
            if len(envs):
                columns = {"action": self.action, "reward": self.reward, **self.extra}
                yield {
                    "obs": _values(obs, t * self.n_envs + envs),
                    "next_obs": _values(obs, next_index[t, envs]),
                    **{name: _values(map_nested(lambda leaf: leaf[t], v), envs) for name, v in columns.items()},  # noqa: B023
                    "terminated": self.terminated[t, envs],
                    "truncated": self.truncated[t, envs],
                    "env_ids": [ids[i] for i in envs.tolist()],
                }


def _joined(first: Any, second: Any) -> Any:
    """Join nested columns [T, k, ...] and [m, ...] along one axis of rows, [T * k + m, ...]."""
    structure, leaves = structure_of(first)
    others = [leaf for _, leaf in flatten(second, structure, "last_obs")]
    return map_structure(lambda i: _joined_leaf(leaves[i], others[i]), structure)


def _joined_leaf(first: Any, second: Any) -> Any:
    if isinstance(first, FrameStacks):
        return dataclasses.replace(first, index=_joined_leaf(first.index, second.index))
    return np.concatenate([first.reshape(-1, *first.shape[2:]), second])


def _as_objects(leaf: Any) -> Any:
    """Return stacks of frames that were objects as an array of objects, whose frames are copies."""
    if not isinstance(leaf, FrameStacks) or not leaf.is_lazy:
        return leaf
    return np.fromiter(dataclasses.replace(leaf, frames=leaf.frames.copy()).stacks(), object, len(leaf))


def _values(column: Any, index: NDArray[np.int64]) -> Any:
    """Return copies of rows: an array, or a list of nested values if the column is nested or holds objects."""
    structure, leaves = structure_of(column)
    parts = [np.asarray(leaf[index]) for leaf in leaves]
    values = [part.tolist() if part.dtype == object else part for part in parts]
    if structure == 0:
        return values[0]
    return [map_structure(lambda i: values[i][row], structure) for row in range(len(index))]  # noqa: B023
