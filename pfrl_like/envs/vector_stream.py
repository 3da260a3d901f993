"""`VectorStream`, the common interface of all vector environments, and `PfrlStream`, for those of PFRL."""

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfrl_like.envs.env_states import is_resumable, layers_of
from pfrl_like.errors import EnvError
from pfrl_like.utils.env_values import own_copy, reset_values

#: Attributes that every vector wrapper has. They are not part of its state.
_COMMON = frozenset(("env", "action_space", "observation_space", "spec"))


BoolArray = NDArray[np.bool_]


class VectorObs(NamedTuple):
    """Observations for the next actions.

    Attributes:
        obs: One observation for each environment: an array [k, ...] or a sequence of length k.
        active: bool [k], False for an environment if its next step only resets it. Such a step accepts any action.
        action_mask: True for allowed actions, bool [k, n_actions]; None if no environment returns a mask.
    """

    obs: Any
    active: BoolArray
    action_mask: BoolArray | None


class VectorStep(NamedTuple):
    """One transition of each active environment.

    Attributes:
        obs: Observations after the step, in the format of `VectorObs`. At the end of an episode, this is its last
            observation, not the first observation of the next episode.
        reward: float64 [k].
        terminated: bool [k], True if `obs` is terminal.
        truncated: bool [k], True if the episode was truncated at `obs`, or if `info["needs_reset"]` is True.
        active: bool [k], False for an environment if this step only resets it. It then has no transition.
        action_mask: Masks at `obs`: True for allowed actions, bool [k, n_actions]; None if no environment returns a
            mask.
        infos: Infos in the environment's format: a sequence of dicts (PFRL) or a dict of arrays (gymnasium).
    """

    obs: Any
    reward: NDArray[np.float64]
    terminated: BoolArray
    truncated: BoolArray
    active: BoolArray
    action_mask: BoolArray | None
    infos: Any


class VectorStream(ABC):
    """Interface of a vector environment: call `reset`, then `step` and `begin` alternately.

    Attributes:
        env: The vector environment.
        num_envs: Number k of environments.
        observation_space: Observation space of one environment. None if unknown.
        action_space: Action space of one environment. None if unknown.
        innermost: The vector environment inside all wrappers.
        not_recorded: Message that explains why the environment cannot be recorded.
    """

    def __init__(self, env: Any, observation_space: Any, action_space: Any) -> None:
        self.env, self.num_envs = env, int(env.num_envs)
        self.observation_space, self.action_space = observation_space, action_space
        *_, self.innermost = layers_of(env)
        self.not_recorded = f"{type(self.innermost).__name__} cannot record its episodes"
        self._all_active = np.ones(self.num_envs, dtype=np.bool_)
        self._all_active.flags.writeable = False  # all steps share the array

    @abstractmethod
    def reset(self) -> VectorObs:
        """Start an episode in every environment."""

    @abstractmethod
    def step(self, actions: Any) -> VectorStep:
        """Step all environments.

        Args:
            actions: One action for each environment, length k.

        Raises:
            EnvError: If the environment violates its interface.
            WorkerError: If an environment in another process raised an error, or if its process died.
        """

    @abstractmethod
    def begin(self, end: Any) -> VectorObs:
        """Start new episodes in the environments whose episode has ended.

        Args:
            end: bool [k], True if the last step ended the episode, or if the caller truncates the episode.

        Raises:
            ValueError: If an ended episode is not in `end`, or if the environment does not allow callers to truncate
                episodes.
        """

    @abstractmethod
    def record(self) -> None:
        """Start to record episodes, so that `saved_state` can save them. Do nothing if this is not supported."""

    @abstractmethod
    def saved_state(self) -> dict[str, Any]:
        """Return the state as JSON values, for `restore_state`. Call `record` first."""

    @abstractmethod
    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Restore the result of `saved_state`. Call `record` first.

        Returns:
            Reasons why environments or wrappers are not in the saved state. Empty if all states were restored.

        Raises:
            ValueError: If the state was saved from a different type of environment.
        """

    def close(self) -> None:
        """Close the vector environment."""
        self.env.close()

    @staticmethod
    def _merge_masks(rows: BoolArray, mask: BoolArray | None, other: BoolArray | None) -> BoolArray | None:
        """Return the action masks from `mask` where `rows` is True, else from `other`; None allows all actions."""
        known = other if mask is None else mask
        if known is None:
            return None
        everything = np.ones_like(known)
        return np.where(rows[:, None], everything if mask is None else mask, everything if other is None else other)

    @staticmethod
    def _merge_rows(rows: BoolArray, obs: Any, other: Any) -> Any:
        """Return the observations from `obs` where `rows` is True, else from `other`, in a new array or list."""
        if isinstance(obs, np.ndarray) and isinstance(other, np.ndarray):
            merged = other.copy()
            merged[rows] = obs[rows]
            return merged
        return [obs[i] if row else other[i] for i, row in enumerate(rows)]

    def _saved_layers(self) -> list[Any]:
        """Return the state of each wrapper, the outermost first. A wrapper without `saved_state` has the state None."""
        *wrappers, _ = layers_of(self.env)
        return [layer.saved_state() if is_resumable(layer) else None for layer in wrappers]

    def _restore_layers(self, results: Sequence[Any], states: Sequence[Mapping[str, Any] | None]) -> list[str]:
        """Restore the result of `_saved_layers`, if the wrapped environments are in their saved states.

        Args:
            results: `RestoreResult` of each environment.
            states: Result of `_saved_layers`.

        Returns:
            Reasons why environments or wrappers are not in the saved state. Empty if all states were restored.

        Raises:
            ValueError: If the number of wrappers differs.
        """
        reasons = [f"environment {i}: {result.reason}" for i, result in enumerate(results) if not result.exact]
        if reasons:
            return reasons
        *wrappers, _ = layers_of(self.env)
        for layer, state in zip(wrappers, states, strict=True):
            if state is not None:
                layer.restore_state(state)
            elif {name.lstrip("_") for name in vars(layer)} - _COMMON:
                reasons.append(f"{type(layer).__name__} has attributes, but no saved_state and restore_state")
        return reasons

    def _as_bools(self, values: Any, name: str) -> BoolArray:
        """Return a new bool array of length `num_envs`.

        Raises:
            ValueError: If the length differs.
        """
        array = np.array(values, dtype=np.bool_)
        if array.shape != (self.num_envs,):
            raise ValueError(
                f"{name} has shape {array.shape}, expected one bool for each of {self.num_envs} environments"
            )
        return array

    def _as_rewards(self, values: Any) -> NDArray[np.float64]:
        """Return a new float64 array of length `num_envs`.

        Raises:
            ValueError: If `values` are not `num_envs` numbers.
        """
        try:
            array = np.array(values, dtype=np.float64)
        except (TypeError, ValueError):
            array = np.empty(0)
        if array.shape != (self.num_envs,):
            raise ValueError(f"reward is {values!r}, expected one number for each of {self.num_envs} environments")
        return array

    def _checked(self, end: Any, ended: BoolArray) -> BoolArray:
        """Return `end` as bools. Raise a ValueError if an episode has ended and `end` is False for it."""
        over = self._as_bools(end, "end")
        if np.count_nonzero(ended > over):
            raise ValueError(f"end is {over}, but these episodes have ended: {ended}")
        return over


class Rows(tuple[Any, ...]):
    """Tuple of the observations of several environments. The observations are the rows of one array.

    Attributes:
        array: The array, shape [num_envs, ...].
    """

    array: NDArray[Any]

    @classmethod
    def of(cls, array: NDArray[Any]) -> "Rows":
        """Return the rows of an array."""
        rows = cls(array)
        rows.array = array
        return rows


def join_steps(results: Sequence[Any]) -> tuple[Any, ...]:
    """Convert the `step` results of all environments to one result: a tuple of observations, a tuple of rewards, ...

    Raises:
        EnvError: If some results do not have four or five values, or if their lengths differ.
    """
    lengths = {len(result) if isinstance(result, tuple | list) else 0 for result in results}
    if lengths not in ({4}, {5}):
        raise EnvError(f"the environments' steps returned {sorted(lengths)} values, expected all 4 or all 5")
    return tuple(zip(*results, strict=True))


def truncated_step(obs: Any, reason: str, n_values: int) -> tuple[Any, ...]:
    """Return a result of `step` that truncates the episode, because the worker of its environment was replaced.

    Args:
        obs: Last observation of the episode.
        reason: Reason why the worker was replaced.
        n_values: Number of values, 4 or 5.
    """
    info = {"worker_restarted": reason, "needs_reset": True}
    return (obs, 0.0, False, info) if n_values == 4 else (obs, 0.0, False, True, info)


def skip_mask(mask: Any, num_envs: int) -> list[bool]:
    """Return the mask of a `reset` as bools: True for environments that are not reset. None means that all are reset.

    Raises:
        ValueError: If the length of `mask` is not the number of environments.
    """
    if mask is None:
        return [False] * num_envs
    if np.shape(mask) != (num_envs,):
        raise ValueError(f"mask has shape {np.shape(mask)}, expected one bool for each of {num_envs} environments")
    return [bool(skip) for skip in mask]


def check_action_count(actions: Any, num_envs: int) -> None:
    """Raise ValueError if the number of actions is not `num_envs`."""
    if len(actions) != num_envs:
        raise ValueError(f"actions has length {len(actions)}, expected one action for each of {num_envs} environments")


def seed_list(seeds: Any, num_envs: int) -> list[int | None]:
    """Return one seed for each environment.

    Args:
        seeds: A sequence with an integer for each environment (None for environments that are not seeded), one integer
            for all environments, or None.
        num_envs: Number of environments.

    Raises:
        ValueError: If the length of `seeds` is not the number of environments.
        TypeError: If an item is neither an integer nor None.
    """
    if seeds is None:
        return [None] * num_envs
    if not isinstance(seeds, Iterable):
        return [_as_int(seeds)] * num_envs
    listed = list(seeds)
    if len(listed) != num_envs:
        raise ValueError(f"seeds has length {len(listed)}, expected one seed for each of {num_envs} environments")
    return [None if seed is None else _as_int(seed) for seed in listed]


def _as_int(seed: Any) -> int:
    try:
        return operator.index(seed)
    except TypeError:
        raise TypeError(f"seeds contains {seed!r} ({type(seed).__name__}), expected integers") from None


class PfrlStream(VectorStream):
    """Stream of a vector environment with `reset(mask)` and `step(actions)` that returns four or five values.

    The stream copies observations, so the vector environment may reuse its arrays.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env, getattr(env, "observation_space", None), getattr(env, "action_space", None))
        self._obs: Any = None
        self._recorded = False
        self._mask: BoolArray | None = None
        self._ended = np.zeros(self.num_envs, dtype=np.bool_)

    def reset(self) -> VectorObs:
        """Start an episode in every environment."""
        self._obs, infos = self._reset_values(self.env.reset())
        self._mask = self._action_mask(infos)
        self._ended = np.zeros(self.num_envs, dtype=np.bool_)
        return VectorObs(self._obs, self._all_active, self._mask)

    def step(self, actions: Any) -> VectorStep:
        """Step all environments."""
        result = self.env.step(actions)
        if not isinstance(result, tuple | list) or len(result) not in (4, 5):
            got = f"{len(result)} values" if isinstance(result, tuple | list) else type(result).__name__
            raise EnvError(f"step of the vector environment returned {got}, expected 4 or 5 values")
        obs, infos = result[0], result[-1]
        if len(infos) != self.num_envs or isinstance(infos, Mapping):
            raise EnvError(f"infos is {type(infos).__name__} of length {len(infos)}, expected {self.num_envs} dicts")
        terminated = self._as_bools(result[2], "done")
        if len(result) == 5:
            truncated = self._as_bools(result[3], "truncated")
        else:
            truncated = self._flags(infos, "TimeLimit.truncated")
            terminated &= ~truncated
        self._obs = self._stacked(obs)
        self._mask = None
        if any(infos):
            self._mask = self._action_mask(infos)
            truncated |= self._flags(infos, "needs_reset")
        self._ended = terminated | truncated
        reward = self._as_rewards(result[1])
        return VectorStep(self._obs, reward, terminated, truncated, self._all_active, self._mask, infos)

    def begin(self, end: Any) -> VectorObs:
        """Start new episodes in the environments where `end` is True."""
        end = self._checked(end, self._ended)
        if np.count_nonzero(end):
            self._obs, infos = self._reset_values(self.env.reset(~end))
            self._mask = self._merge_masks(end, self._action_mask(infos), self._mask)
            self._ended = np.zeros(self.num_envs, dtype=np.bool_)
        return VectorObs(self._obs, self._all_active, self._mask)

    def record(self) -> None:
        """Start to record episodes, so that `saved_state` can save them. Do nothing if this is not supported."""
        self._recorded = is_resumable(self.innermost) and getattr(self.innermost, "can_record", True)
        if self._recorded:
            self.innermost.record()

    def saved_state(self) -> dict[str, Any]:
        """Return the state as JSON values, for `restore_state`. Call `record` first."""
        if not self._recorded:
            return {"env": None, "way": "unknown", "reason": self.not_recorded}
        env, layers = self.innermost.saved_state(), self._saved_layers()
        return {"env": env, "layers": layers, "ended": self._ended.tolist()}

    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Restore the environments to a saved state."""
        if state["env"] is None or not self._recorded:
            return [self.not_recorded]
        results = self.innermost.restore_state(state["env"])
        reasons = self._restore_layers(results, state["layers"])
        if not reasons:
            self._obs = self._stacked(self.env.last_obs)
            self._mask = self._action_mask([result.info for result in results])
            self._ended = self._as_bools(state["ended"], "ended")
        return reasons

    def _reset_values(self, result: Any) -> tuple[Any, Sequence[Mapping[str, Any]]]:
        infos = result[1] if type(result) is tuple and len(result) == 2 else None
        if isinstance(infos, list) and len(infos) == self.num_envs and all(isinstance(info, dict) for info in infos):
            return self._stacked(result[0]), infos
        if len(result) != self.num_envs:
            raise EnvError(f"reset returned {len(result)} observations, expected {self.num_envs}")
        obs = self._stacked(result)
        if isinstance(obs, np.ndarray):
            return obs, ()
        pairs = [reset_values(one) for one in obs]  # PFRL's vector environments return pairs (obs, info) unchanged
        return [pair[0] for pair in pairs], [pair[1] or {} for pair in pairs]

    def _stacked(self, obs: Any) -> Any:
        if len(obs) != self.num_envs:
            raise EnvError(f"obs has length {len(obs)}, expected one for each of {self.num_envs} environments")
        return obs.array if type(obs) is Rows else own_copy(obs)

    def _flags(self, infos: Sequence[Mapping[str, Any]], key: str) -> BoolArray:
        if not any(infos):
            return np.zeros(self.num_envs, dtype=np.bool_)
        return np.array([bool(info) and bool(info.get(key, False)) for info in infos], dtype=np.bool_)

    def _action_mask(self, infos: Sequence[Mapping[str, Any]]) -> BoolArray | None:
        masks: BoolArray | None = None
        if not any(infos):
            return None
        for index, info in enumerate(infos):
            mask = info.get("action_mask") if info else None
            if mask is not None:
                if masks is None:
                    masks = np.ones((self.num_envs, len(mask)), dtype=np.bool_)
                masks[index] = mask
        return masks
