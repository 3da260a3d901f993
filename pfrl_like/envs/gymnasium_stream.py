"""`GymnasiumStream`, the stream of gymnasium's vector environments in all autoreset modes; `as_vector_stream`."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium.vector
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import concatenate, create_empty_array

from pfrl_like.envs.episode_tape import taped
from pfrl_like.envs.vector_stream import BoolArray, PfrlStream, VectorObs, VectorStep, VectorStream
from pfrl_like.errors import EnvError
from pfrl_like.utils.env_values import own_copy, space_kind
from pfrl_like.utils.plain_values import from_json, to_json


class GymnasiumStream(VectorStream):
    """Stream of a `gymnasium.vector.VectorEnv` in any autoreset mode.

    In the mode NEXT_STEP, the step after the end of an episode ignores its action and only resets the environment. The
    environment is not active in this step. In the mode SAME_STEP, the last step of an episode returns the first
    observation of the next episode, and `info["final_obs"]` contains the last observation of the episode. In the mode
    DISABLED, `begin` resets the environment.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env, env.single_observation_space, env.single_action_space)
        self.mode = _autoreset_mode(env)
        self._kind = space_kind(self.observation_space)
        own_classes = (gymnasium.vector.SyncVectorEnv, gymnasium.vector.AsyncVectorEnv)
        is_own = isinstance(env.unwrapped, own_classes)
        self._returns_copies = is_own and bool(env.unwrapped.copy)
        self._can_truncate = is_own or self.mode is AutoresetMode.DISABLED
        self._sync: Any = None  # set by `record`
        self._resetting: BoolArray | None = None  # environments whose next step only resets
        self._start(None, None)

    def reset(self) -> VectorObs:
        """Start an episode in every environment."""
        obs, info = self.env.reset()
        self._start(self._rows(obs), self._action_mask(info))
        return VectorObs(self._next_obs, self._all_active, self._next_mask)

    def step(self, actions: Any) -> VectorStep:
        """Step all environments."""
        obs, reward, terminated, truncated, info = self.env.step(self._batched(actions))
        obs = self._next_obs = self._rows(obs)
        mask = self._next_mask = self._action_mask(info)
        terminated = self._as_bools(terminated, "terminated")
        truncated = self._as_bools(truncated, "truncated")
        ended = terminated | truncated
        if self.mode is AutoresetMode.SAME_STEP and np.count_nonzero(ended):
            obs = self._merge_rows(ended, self._final_obs(info, ended), obs)
            mask = self._merge_masks(ended, self._action_mask(info.get("final_info", {})), mask)
        active = self._all_active
        if self._resetting is not None:
            active, self._resetting = ~self._resetting, None
        if "needs_reset" in info:
            truncated |= active & np.asarray(info["needs_reset"], dtype=np.bool_)
        self._ended, self._must_begin = ended, terminated | truncated
        return VectorStep(obs, self._as_rewards(reward), terminated, truncated, active, mask, info)

    def begin(self, end: Any) -> VectorObs:
        """Start new episodes in the environments where `end` is True."""
        end = self._checked(end, self._must_begin)
        active = self._all_active
        if np.count_nonzero(end):
            to_reset = end if self.mode is AutoresetMode.DISABLED else end & ~self._ended
            if np.count_nonzero(to_reset):
                self._reset_some(to_reset)
            if self.mode is AutoresetMode.NEXT_STEP and np.count_nonzero(self._ended):
                self._resetting = self._ended
                active = ~self._ended
            self._ended = self._must_begin = np.zeros(self.num_envs, dtype=np.bool_)
        return VectorObs(self._next_obs, active, self._next_mask)

    def record(self) -> None:
        """Start to record episodes, so that `saved_state` can save them. Only `SyncVectorEnv` supports this."""
        if isinstance(self.innermost, gymnasium.vector.SyncVectorEnv):
            self._sync = self.innermost
            self._sync.envs = taped(self._sync.envs)

    def saved_state(self) -> dict[str, Any]:
        """Return the state as JSON values, for `restore_state`. Call `record` first."""
        if self._sync is None:
            return {"episodes": None, "way": "unknown", "reason": self.not_recorded}
        arrays = {"mask": self._next_mask, "ended": self._ended, "begin": self._must_begin, "reset": self._resetting}
        return {
            "episodes": [tape.saved_state() for tape in self._sync.envs], "layers": self._saved_layers(),
            "obs": to_json(self._next_obs), "ends": self._sync._autoreset_envs.tolist(),
            "arrays": {name: to_json(array) for name, array in arrays.items()},
        }  # fmt: skip

    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Restore the environments to a saved state."""
        sync = self._sync
        if state["episodes"] is None or sync is None:
            return [self.not_recorded]
        results = [tape.restore_state(each) for tape, each in zip(sync.envs, state["episodes"], strict=True)]
        reasons = self._restore_layers(results, state["layers"])
        if not reasons:
            sync._env_obs = [result.obs for result in results]
            sync._autoreset_envs = np.array(state["ends"], dtype=np.bool_)
            arrays = {name: from_json(array) for name, array in state["arrays"].items()}
            self._start(from_json(state["obs"]), arrays["mask"])
            self._ended, self._must_begin, self._resetting = (arrays[name] for name in ("ended", "begin", "reset"))
        return reasons

    def _start(self, obs: Any, mask: BoolArray | None) -> None:
        self._next_obs, self._next_mask = obs, mask  # the next action is for these, unless `begin` resets
        self._ended = np.zeros(self.num_envs, dtype=np.bool_)  # True if the environment ended the episode
        self._must_begin = self._ended  # True if the environment or the agent ended the episode
        self._resetting = None

    def _reset_some(self, rows: BoolArray) -> None:
        if not self._can_truncate:
            index, advice = int(np.argmax(rows)), "use gymnasium.wrappers.TimeLimit, or AutoresetMode.DISABLED"
            raise ValueError(f"environment {index} of {self.env} ({self.mode}) resets only after its episode: {advice}")
        obs, info = self.env.reset(options={"reset_mask": rows.copy()})
        self._next_obs = self._merge_rows(rows, self._rows(obs), self._next_obs)
        self._next_mask = self._merge_masks(rows, self._action_mask(info), self._next_mask)

    def _rows(self, obs: Any) -> Any:
        """Return observations as an array [k, ...], or as a list of length k if the space is not a single array."""
        if not self._returns_copies:
            obs = own_copy(obs)  # the environment may reuse the array
        if self._kind in ("dict", "tuple"):
            return [_row(self.observation_space, obs, i) for i in range(self.num_envs)]
        return obs if isinstance(obs, np.ndarray) and obs.dtype != object else list(obs)

    def _final_obs(self, info: Any, ended: BoolArray) -> Any:
        if "final_obs" not in info:
            raise EnvError(f'info has no "final_obs", but episodes of {self.env} have ended ({self.mode})')
        final = info["final_obs"]
        if isinstance(final, np.ndarray) and final.dtype == object:
            obs = [final[i] for i in range(self.num_envs)]
        else:
            obs = self._rows(final)
        if not isinstance(self._next_obs, np.ndarray) or isinstance(obs, np.ndarray):
            return obs
        stacked = np.empty_like(self._next_obs)
        for index in np.flatnonzero(ended):
            stacked[index] = obs[index]
        return stacked

    def _action_mask(self, info: Any) -> BoolArray | None:
        masks = info.get("action_mask")
        if masks is None:
            return None
        present = info.get("_action_mask", self._all_active)
        if masks.dtype == object:  # the environments return masks as lists
            first = next(mask for mask, has_mask in zip(masks, present, strict=True) if has_mask)
            masks = [mask if has_mask else np.ones(len(first)) for mask, has_mask in zip(masks, present, strict=True)]
        allowed = np.array(masks, dtype=np.bool_)
        allowed[~present] = True
        return allowed

    def _batched(self, actions: Any) -> Any:
        if isinstance(actions, np.ndarray):
            return actions
        space = self.action_space
        if space_kind(space) in ("dict", "tuple"):
            return concatenate(space, actions, create_empty_array(space, self.num_envs))  # type: ignore[arg-type]
        return np.asarray(actions, dtype=space.dtype)


def _autoreset_mode(env: Any) -> AutoresetMode:
    mode = env.metadata.get("autoreset_mode")
    try:
        return AutoresetMode(mode)
    except ValueError:
        raise ValueError(
            f"metadata of {env} has autoreset_mode {mode!r}, expected one of {[*AutoresetMode]}: set the mode in which "
            "the environment resets when an episode ends"
        ) from None


def _row(space: Any, obs: Any, index: int) -> Any:
    """Return the observation of one environment from gymnasium's batched observations."""
    kind = space_kind(space)
    if kind == "dict":
        return {key: _row(part, obs[key], index) for key, part in space.spaces.items()}
    if kind == "tuple":
        return tuple(_row(part, item, index) for part, item in zip(space.spaces, obs, strict=True))
    return obs[index]


def as_vector_stream(env: Any) -> VectorStream:
    """Wrap a vector environment in a `VectorStream`.

    Args:
        env: A `SerialVectorEnv`, a `MultiprocessVectorEnv`, another vector environment with PFRL's interface
            (`num_envs`, `step(actions)` with four or five values, `reset(mask)`), or a `gymnasium.vector.VectorEnv` in
            any autoreset mode.

    Raises:
        TypeError: If `env` is not a vector environment.
        ValueError: If the metadata of a gymnasium vector environment has no valid autoreset mode.
    """
    if isinstance(env, VectorStream):
        return env
    if isinstance(env, gymnasium.vector.VectorEnv):
        return GymnasiumStream(env)
    has_methods = callable(getattr(env, "step", None)) and callable(getattr(env, "reset", None))
    of_gym: Any = getattr(sys.modules.get("gym.vector"), "VectorEnv", ())
    if isinstance(env, of_gym) or not has_methods or not hasattr(env, "num_envs"):
        expected = "a vector environment, with num_envs, step(actions) and reset(mask); use SerialVectorEnv([env, ...])"
        raise TypeError(f"env is {type(env).__name__}, expected {expected}")
    return PfrlStream(env)
