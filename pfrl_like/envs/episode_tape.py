"""`EpisodeTape` records the current episode of an environment, so that another process can continue the episode."""

import contextlib
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pfrl_like.envs.env_states import EnvLayers, EnvState, can_save_state, check_restored, continues_game, restore_env
from pfrl_like.random_streams.streams import GlobalDraws, GlobalStreams, Streams, plain_state, state_restorers
from pfrl_like.storage.plain_tensors import checksum, checksum_of_many
from pfrl_like.utils.env_values import Forwarding, own_copy, reset_values
from pfrl_like.utils.plain_values import from_json, many_to_json, to_json

_RESET = object()
_NUMBERS = frozenset({int, np.int64, float, np.float64, np.float32})  # immutable types, which need no copy
_MAX_DELAYED_BYTES = 1024  # maximum size in bytes of an observation whose checksum may be delayed
_MAX_DELAYED_STEPS = 64  # maximum number of steps with delayed checksums
#: Maximum size of the recorded actions in bytes, in memory or in a file. A million actions of a few numbers fit.
_MAX_ACTION_BYTES = 192 << 20


class RestoreResult(NamedTuple):
    """Result of restoring an environment.

    Attributes:
        obs: Latest observation. None if the environment had not been reset.
        info: Info of the step or reset that returned `obs`.
        exact: True if the environment is in the saved state.
        reason: Reason why the environment is not in the saved state. Empty if `exact` is True.
    """

    obs: Any
    info: Mapping[str, Any]
    exact: bool
    reason: str


class EpisodeTape(Forwarding):
    """Records the current episode of an environment, and replays it in another environment made in the same way.

    If an environment has `get_state()` and `set_state(state)`, and the state of every wrapper can be saved, the tape
    saves and restores the current state. For all other environments the tape replays the episode: it restores the state
    before the reset, and repeats the actions. The state before the reset consists of the random streams, and of the
    states of wrappers and environments that can save them (`saved_state`, `get_state`, ALE games). The tape compares
    checksums of the recorded and the replayed observations, rewards and flags. If they differ, the saved state was not
    restored. If an episode becomes too long, the tape discards its record.

    `reset` and `step` return the values of the environment. Other attributes are the attributes of the environment.

    Args:
        env: An environment of any supported interface.
        alone: True if only this environment uses the global random streams, as in a worker process. The streams are
            then saved and restored with the environment.
        num_envs: Number of environments that are recorded. Their recorded actions may have `_MAX_ACTION_BYTES` in all.

    Attributes:
        info: Info of the last step or reset.
    """

    def __init__(self, env: Any, *, alone: bool = False, num_envs: int = 1) -> None:
        self.env, self._alone = env, alone
        self._max_bytes: float = _MAX_ACTION_BYTES // num_envs
        self.info: Mapping[str, Any] = {}
        self._last: Any = None
        self._has_env_state = can_save_state(env)
        self._layers = EnvLayers(env)
        self._draws, self._draws_at_resets = GlobalDraws(128), GlobalDraws(16)
        self._streams, self._searches_left = self._streams_of_env(), 2
        self._actions: list[Any] = []
        self._bytes = 0  # size of the actions in bytes
        self._sums = 0, 0  # checksums of observations, and of rewards and flags
        self._delay_limit = 0  # number of steps after which the delayed checksums are computed
        # Steps whose checksums are not computed yet. One loop over many steps is faster than one call in each step.
        self._delayed_steps: list[tuple[Any, Any, Any]] = []
        self._reset_record(None)

    def reset(self, **options: Any) -> Any:
        """Start an episode. Keyword arguments are passed to the environment."""
        arguments = {key: value for key, value in options.items() if value is not None}
        if (self._start is not None or self._reason) and not arguments and continues_game(self.env):
            self._add_checksums()
        else:
            self._begin_episode(arguments)
        act = partial(self.env.reset, **options)
        if self._start is None:
            result = act()
        else:
            result = self._draws_at_resets.call(len(self._actions), act)
            self._actions.append(_RESET)
        self._draws_at_resets.count(1)
        if self._searches_left or "seed" in arguments:  # the environment may have created new generators
            self._searches_left -= self._searches_left > 0
            self._streams = self._streams_of_env()
        obs, info = reset_values(result)
        self._last, self.info = obs, info or {}
        self._sums = checksum(obs, self._sums[0]), self._sums[1]
        return result

    def step(self, action: Any) -> Any:
        """Execute an action and return the values of the environment's `step`."""
        kept = action if type(action) in _NUMBERS else own_copy(action)
        waiting = self._delayed_steps
        act = self.env.step if len(waiting) < self._delay_limit else self._checked_step
        result = act(action)
        obs = self._last = result[0]
        self.info = result[-1]
        if self._start is not None:
            waiting.append((kept, obs.copy() if type(obs) is np.ndarray else own_copy(obs), result[1:-1]))
        return result

    def _checked_step(self, action: Any) -> Any:
        """Compute the delayed checksums, and execute an action.

        If a check of the random streams is due, record the streams that the action uses.
        """
        if self._start is not None:
            self._add_checksums()
        if self._start is None:
            return self.env.step(action)
        act = partial(self.env.step, action)
        result = self._draws.call(len(self._actions), act) if self._draws.are_due else act()
        small = type(self._last) is np.ndarray and self._last.nbytes <= _MAX_DELAYED_BYTES
        self._delay_limit = min(self._draws.interval, _MAX_DELAYED_STEPS) if small else 1
        return result

    def _add_checksums(self) -> None:
        if self._delayed_steps:
            actions, observations, results = zip(*self._delayed_steps, strict=True)
            self._actions += actions
            self._sums = checksum_of_many(observations, self._sums[0]), _checksum_of_rewards(results, self._sums[1])
            self._draws.count(len(actions))
            self._delayed_steps.clear()
            self._bytes += len(actions) * _bytes_of(actions[-1])
            if self._bytes + self._draws.nbytes + self._draws_at_resets.nbytes > self._max_bytes:
                reason = f"the episode is too long to be replayed: its actions take more than {self._max_bytes:,} bytes"
                self._reset_record(None, reason)
        self._delay_limit = 0

    def saved_state(self) -> dict[str, Any]:
        """Return the state as JSON values for `restore_state`, or the reason why it cannot be saved."""
        self._add_checksums()
        try:
            state = self._env_state() if self._has_env_state else self._replay_record()
            return state | {"own": self._own_streams().to_plain()}
        except Exception as error:  # raised by the user's code
            reason = f"the values needed to restore the environment cannot be saved: {error!r:.200}"
            return {"way": "unknown", "reason": reason}

    def restore_state(self, state: Mapping[str, Any]) -> RestoreResult:
        """Restore a state that was saved by the tape of another environment.

        The global random streams are not changed, unless `alone` is True.

        Args:
            state: The result of `saved_state`.

        Raises:
            KeyError, TypeError, ValueError: If `state` is not a result of `saved_state`.
        """
        streams = GlobalStreams.now()
        result = RestoreResult(None, {}, False, "")
        try:
            if state["way"] == "unknown":
                return result._replace(reason=str(state["reason"]))
            result = self._restore_env_state(state) if state["way"] == "state" else self._replay(state)
            return result
        finally:
            if not (self._alone and result.exact):
                streams.restore()

    def _streams_of_env(self) -> Streams:
        return Streams.of(self.env, with_global=False)

    def _own_streams(self) -> Streams:
        return Streams.of(self.env, with_global=self._alone)

    def _begin_episode(self, arguments: dict[str, Any]) -> None:
        reason, state = "", None
        if not self._has_env_state:
            try:
                state = self._layers.read()
            except Exception as error:
                reason = f"the environment's state before its reset is not known: {error!r:.200}"
        self._draws.count(len(self._delayed_steps))
        self._reset_record((arguments, state, self._streams.now()) if state is not None else None, reason)

    def _reset_record(self, start: tuple[dict[str, Any], EnvState, dict[str, Any]] | None, reason: str = "") -> None:
        """Discard the record and start a new record.

        Args:
            start: Arguments of the reset, and states of the layers and of the random streams before the reset. If None,
                nothing is recorded.
            reason: Reason why nothing is recorded.
        """
        self._start, self._reason = start, reason
        self._delayed_steps.clear()
        self._draws.clear()
        self._draws_at_resets.clear()
        self._actions, self._bytes, self._sums, self._delay_limit = [], 0, (0, 0), 0

    def _env_state(self) -> dict[str, Any]:
        if self._last is None:
            return {"way": "unknown", "reason": "the environment was not reset"}
        info = {key: value for key, value in self.info.items() if _can_be_saved(value)}
        state = self._layers.read().to_plain()
        return {"way": "state", "obs": to_json(self._last), "info": to_json(info), "state": state}

    def _replay_record(self) -> dict[str, Any]:
        if self._start is None:
            return {"way": "unknown", "reason": self._reason or "the environment was not reset"}
        options, state, streams = self._start
        resets = [number for number, action in enumerate(self._actions) if action is _RESET]
        return {
            "way": "story", "options": to_json(options), "state": state.to_plain(),
            "streams": {name: plain_state(stream) for name, stream in streams.items()},
            "actions": many_to_json([action for action in self._actions if action is not _RESET]),
            "resets": resets, "draws": [self._draws.to_plain(), self._draws_at_resets.to_plain()], "sums": self._sums,
        }  # fmt: skip

    def _restore_env_state(self, state: Mapping[str, Any]) -> RestoreResult:
        obs, info = from_json(state["obs"]), from_json(state["info"])
        try:
            restore_env(self.env, state["state"])
            check_restored(self.env, state["state"])
            self._own_streams().restore(state["own"])
        except Exception as error:
            return RestoreResult(None, {}, False, f"the environment rejected its saved state: {error!r:.200}")
        self._last, self.info = obs, info
        return RestoreResult(obs, info, True, "")

    def _replay(self, state: Mapping[str, Any]) -> RestoreResult:
        actions, options = from_json(state["actions"]), from_json(state["options"])
        in_steps, at_resets = map(state_restorers, state["draws"])
        stream_states, sums, layers, own = in_steps | at_resets, tuple(state["sums"]), state["state"], state["own"]
        resets, remaining = set(state["resets"]), iter(actions)
        count = len(actions) + len(resets)
        entries = [_RESET if number in resets else next(remaining, _RESET) for number in range(count)]
        max_bytes, self._max_bytes = self._max_bytes, math.inf  # no limit, because the saved episode was short enough
        try:
            restore_env(self.env, layers)
            if state["streams"].keys() - self._streams_of_env().names:  # a reset creates the missing streams
                self.env.reset()
                restore_env(self.env, layers)
            self._streams = self._streams_of_env()
            self._streams.restore(state["streams"])
            self._reset_record(None)
            for number, action in enumerate(entries):
                for restore_stream in stream_states.get(number, ()):
                    restore_stream()
                if action is _RESET:
                    self.reset(**({} if number else options))
                else:
                    self.step(action)
            self._add_checksums()
            if self._sums != sums:
                advice = "keep random streams as attributes, or define get_state() and set_state(state)"
                raise ValueError(f"the same actions led to different observations, rewards or flags: {advice}")
            self._own_streams().restore(own)
        except Exception as error:
            return RestoreResult(None, {}, False, f"the environment did not reach its saved state: {error!r:.300}")
        finally:
            self._max_bytes = max_bytes
        return RestoreResult(self._last, self.info, True, "")


def taped(envs: Sequence[Any]) -> list[Any]:
    """Wrap each environment in an `EpisodeTape`, unless it is one already. Return the list of tapes."""
    return [env if isinstance(env, EpisodeTape) else EpisodeTape(env, num_envs=len(envs)) for env in envs]


def _checksum_of_rewards(rewards_and_flags: Sequence[tuple[Any, ...]], total: int) -> int:
    """Return the checksum of rewards and flags, continued from `total`, the checksum of the earlier steps."""
    with contextlib.suppress(TypeError, ValueError, RuntimeError, OverflowError):
        numbers = np.array(rewards_and_flags, np.float64)
        if numbers.ndim == 2:
            return zlib.crc32(numbers.tobytes(), total)
    for each in rewards_and_flags:
        with contextlib.suppress(TypeError, ValueError, RuntimeError, OverflowError):  # the agent raises the error
            numbers = np.array([part.item() if hasattr(part, "item") else part for part in each], np.float64)
            total = zlib.crc32(numbers.tobytes(), total)
    return total


def _bytes_of(action: Any) -> int:
    """Return the approximate size of an action in bytes, in memory or in a file, whichever is larger."""
    if type(action) is int:
        return 40
    if isinstance(action, np.ndarray | np.generic):
        return 128 + action.nbytes * 4 // 3
    try:
        return 128 + 2 * len(json.dumps(to_json(action)))
    except TypeError:  # `saved_state` reports the error
        return 1024


def _can_be_saved(value: Any) -> bool:
    try:
        to_json(value)
    except TypeError:
        return False
    return True
