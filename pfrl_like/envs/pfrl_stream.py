"""`PfrlStream`, vector environments of PFRL's form, which the caller resets; `as_vector_stream`, which knows all."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pfrl_like.env import reset_values
from pfrl_like.envs.env_states import is_resumable
from pfrl_like.envs.vector_stream import (
    BoolArray,
    Rows,
    VectorObs,
    VectorStep,
    VectorStream,
    as_bools,
    as_rewards,
    merge_masks,
    restore_layers,
    saved_layers,
)
from pfrl_like.errors import EnvError
from pfrl_like.utils.env_values import own_copy


class PfrlStream(VectorStream):
    """A vector environment with `step(actions)` of four or five values and `reset(mask)`.

    It may return the same arrays every time: they are copied.
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
        """Act in every environment."""
        result = self.env.step(actions)
        if not isinstance(result, tuple | list) or len(result) not in (4, 5):
            came = f"{len(result)} values" if isinstance(result, tuple | list) else f"a {type(result).__name__}"
            raise EnvError(f"the vector environment's step returned {came}, expected 4 or 5")
        obs, infos = result[0], result[-1]
        if len(infos) != self.num_envs or isinstance(infos, Mapping):
            raise EnvError(f"infos is a {type(infos).__name__} of length {len(infos)}, expected {self.num_envs} dicts")
        terminated = as_bools(result[2], self.num_envs, "done")
        if len(result) == 5:
            truncated = as_bools(result[3], self.num_envs, "truncated")
        else:
            truncated = self._flags(infos, "TimeLimit.truncated")
            terminated &= ~truncated
        self._obs = self._stacked(obs)
        self._mask = None
        if any(infos):
            self._mask = self._action_mask(infos)
            truncated |= self._flags(infos, "needs_reset")
        self._ended = terminated | truncated
        reward = as_rewards(result[1], self.num_envs)
        return VectorStep(self._obs, reward, terminated, truncated, self._all_active, self._mask, infos)

    def begin(self, end: Any) -> VectorObs:
        """Begin new episodes where `end`."""
        end = self._checked(end, self._ended)
        if np.count_nonzero(end):
            self._obs, infos = self._reset_values(self.env.reset(~end))
            self._mask = merge_masks(end, self._action_mask(infos), self._mask)
            self._ended = np.zeros(self.num_envs, dtype=np.bool_)
        return VectorObs(self._obs, self._all_active, self._mask)

    def record(self) -> None:
        """Record from now on how episodes come about, if the environment can."""
        self._recorded = is_resumable(self.innermost)
        if self._recorded:
            self.innermost.record()

    def saved_state(self) -> dict[str, Any]:
        """How the environments came to where they are, in plain values."""
        if not self._recorded:
            return {"env": None, "way": "unknown", "reason": self.not_recorded}
        told = {"env": self.innermost.saved_state(), "layers": saved_layers(self.env)}
        return told | {"ended": self._ended.tolist()}

    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Let the environments come to where they were."""
        if state["env"] is None or not self._recorded:
            return [self.not_recorded]
        arrivals = self.innermost.restore_state(state["env"])
        reasons = restore_layers(self.env, arrivals, state["layers"])
        if not reasons:
            self._obs = self._stacked(self.env.last_obs)
            self._mask = self._action_mask([arrival.info for arrival in arrivals])
            self._ended = as_bools(state["ended"], self.num_envs, "ended")
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
        pairs = [reset_values(one) for one in obs]  # PFRL's own classes leave (obs, info) of gymnasium together
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


def as_vector_stream(env: Any) -> VectorStream:
    """Give a vector environment the form of a `VectorStream`.

    Args:
        env: A `SerialVectorEnv`, `MultiprocessVectorEnv` or another one of PFRL's form (`num_envs`, `step(actions)`
            of four or five values, `reset(mask)`), or a `gymnasium.vector.VectorEnv` in any autoreset mode.

    Raises:
        TypeError: If it is none of these.
        ValueError: If a gymnasium vector environment does not tell its autoreset mode.
    """
    if isinstance(env, VectorStream):
        return env
    if isinstance(env, _vector_env_class("gymnasium")):
        from pfrl_like.envs.gymnasium_stream import GymnasiumStream

        return GymnasiumStream(env)
    has_methods = callable(getattr(env, "step", None)) and callable(getattr(env, "reset", None))
    if isinstance(env, _vector_env_class("gym")) or not has_methods or not hasattr(env, "num_envs"):
        raise TypeError(
            f"env is a {type(env).__name__}, expected a vector environment: one of gymnasium.vector, or one with "
            "num_envs, step(actions) and reset(mask); SerialVectorEnv([env, ...]) makes one of single environments"
        )
    return PfrlStream(env)


def _vector_env_class(library: str) -> Any:
    """The class `VectorEnv` of a library, or what nothing is an instance of if it has not been imported."""
    return getattr(sys.modules.get(f"{library}.vector"), "VectorEnv", ())
