"""`EpisodeTape`: a record of an environment's current episode that lets another process continue the episode."""

import contextlib
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pfrl_like.envs.env_states import EnvLayers, EnvState, can_be_left, check_taken, goes_on, restore_env
from pfrl_like.random_streams.streams import GlobalDraws, GlobalStreams, Streams, plain_state, state_restorers
from pfrl_like.storage.plain_tensors import checksum, checksum_of_many
from pfrl_like.utils.env_values import Forwarding, own_copy, reset_values
from pfrl_like.utils.plain_values import from_json, many_to_json, to_json

_RESET = object()
_NUMBERS = frozenset({int, np.int64, float, np.float64, np.float32})  # immutable types, which need no copy
_SMALL = 1024  # maximum size in bytes of an observation whose checksum may be delayed
_MOST = 64  # maximum number of steps with delayed checksums
#: Maximum bytes of the current episodes' actions, in memory or in a file: enough for a million actions of a few
#: numbers.
_ROOM_FOR_ACTIONS = 192 << 20
_TOO_LONG = "the episode is too long to be repeated: its actions take more than {:,} bytes"
_OTHERWISE = (
    "other observations, rewards or ends of episodes came of the same actions; what they depend on has to be in random "
    "streams that can be reached, or in get_state() and set_state(state)"
)


class Arrival(NamedTuple):
    """Result of restoring an environment.

    Attributes:
        obs: The observation; None if the environment had no observation.
        info: Info of the same step or reset.
        exact: True if the environment is in the saved state.
        reason: Reason why the environment is not in the saved state; empty if `exact`.
    """

    obs: Any
    info: Mapping[str, Any]
    exact: bool
    reason: str


class EpisodeTape(Forwarding):
    """Records the current episode of an environment, and replays it in another environment made in the same way.

    If an environment has `get_state()` and `set_state(state)`, and only wrappers with a known state, the tape saves its
    state. For all other environments the tape replays the episode. It first restores the random streams to their states
    before the reset. It also restores layers that have `saved_state` and `restore_state`, environments with `get_state`
    and `set_state`, and ALE games. Then it repeats the actions. Checksums of observations, rewards and flags are
    computed both times. If they differ, the saved state was not reached. If an episode becomes too long, its record is
    discarded.

    `reset` and `step` return the environment's values. Other attributes are the attributes of the environment.

    Args:
        env: An environment of any supported interface.
        alone: True if only this environment uses the global random streams, as in a worker process. The streams are
            then saved and restored with the environment.
        num_envs: Number of environments whose tapes share the memory for actions.

    Attributes:
        info: Info of the last step or reset.
    """

    def __init__(self, env: Any, *, alone: bool = False, num_envs: int = 1) -> None:
        self.env, self._alone = env, alone
        self._most: float = _ROOM_FOR_ACTIONS // num_envs
        self.info: Mapping[str, Any] = {}
        self._last: Any = None
        self._gives_state = can_be_left(env)
        self._layers = EnvLayers(env)
        self._draws, self._draws_at_resets = GlobalDraws(128), GlobalDraws(16)
        self._streams, self._to_look = self._streams_of_env(), 2
        self._actions: list[Any] = []
        self._bytes = 0  # size of the actions in bytes
        self._sums = 0, 0  # checksums of observations, and of rewards and flags
        self._room = 0  # number of steps with delayed checksums that are allowed before the next check
        # Steps with delayed checksums: one loop over many steps is faster, because it uses the CPU cache better.
        self._waiting: list[tuple[Any, Any, Any]] = []
        self._start_over(None)

    def reset(self, **options: Any) -> Any:
        """Start an episode; keyword arguments are passed to the environment."""
        told = {key: value for key, value in options.items() if value is not None}
        if (self._begun is not None or self._trouble) and not told and goes_on(self.env):
            self._digest()
        else:
            self._begin(told)
        act = partial(self.env.reset, **options)
        if self._begun is None:
            result = act()
        else:
            result = self._draws_at_resets.call(len(self._actions), act)
            self._actions.append(_RESET)
        self._draws_at_resets.count(1)
        if self._to_look or "seed" in told:  # the environment may have created new generators
            self._to_look -= self._to_look > 0
            self._streams = self._streams_of_env()
        obs, info = reset_values(result)
        self._last, self.info = obs, info or {}
        self._sums = checksum(obs, self._sums[0]), self._sums[1]
        return result

    def step(self, action: Any) -> Any:
        """Execute an action and return the values of the environment's `step`."""
        kept = action if type(action) in _NUMBERS else own_copy(action)
        waiting = self._waiting
        act = self.env.step if len(waiting) < self._room else self._step_and_look
        result = act(action)
        obs = self._last = result[0]
        self.info = result[-1]
        if self._begun is not None:
            waiting.append((kept, obs.copy() if type(obs) is np.ndarray else own_copy(obs), result[1:-1]))
        return result

    def _step_and_look(self, action: Any) -> Any:
        """Compute delayed checksums, execute an action, and record the use of random streams if a check is due."""
        if self._begun is not None:
            self._digest()
        if self._begun is None:
            return self.env.step(action)
        act = partial(self.env.step, action)
        result = self._draws.call(len(self._actions), act) if self._draws.are_due else act()
        small = type(self._last) is np.ndarray and self._last.nbytes <= _SMALL
        self._room = min(self._draws.interval, _MOST) if small else 1
        return result

    def _digest(self) -> None:
        if self._waiting:
            actions, seen, got = zip(*self._waiting, strict=True)
            self._actions += actions
            self._sums = checksum_of_many(seen, self._sums[0]), _checksum_of_rewards(got, self._sums[1])
            self._draws.count(len(actions))
            self._waiting.clear()
            self._bytes += len(actions) * _bytes_of(actions[-1])
            if self._bytes + self._draws.nbytes + self._draws_at_resets.nbytes > self._most:
                self._start_over(None, _TOO_LONG.format(self._most))
        self._room = 0

    def saved_state(self) -> dict[str, Any]:
        """Return plain values from which `restore_state` restores the same state, or the reason why there are none."""
        self._digest()
        try:
            told = self._state_now() if self._gives_state else self._story()
            return told | {"own": self._own_streams().to_plain()}
        except Exception as error:  # raised by the user's code
            reason = f"the values needed to restore the environment cannot be saved: {error!r:.200}"
            return {"way": "unknown", "reason": reason}

    def restore_state(self, state: Mapping[str, Any]) -> Arrival:
        """Restore the saved state of another environment in this environment.

        The global random streams are not changed unless only this environment uses them (`alone`).

        Args:
            state: The result of `saved_state`.

        Raises:
            KeyError, TypeError, ValueError: If `state` is not a result of `saved_state`.
        """
        streams = GlobalStreams.now()
        arrival = Arrival(None, {}, False, "")
        try:
            if state["way"] == "unknown":
                return arrival._replace(reason=str(state["reason"]))
            arrival = self._taken_up(state) if state["way"] == "state" else self._repeated(state)
            return arrival
        finally:
            if not (self._alone and arrival.exact):
                streams.restore()

    def _streams_of_env(self) -> Streams:
        return Streams.of(self.env, with_global=False)

    def _own_streams(self) -> Streams:
        return Streams.of(self.env, with_global=self._alone)

    def _begin(self, told: dict[str, Any]) -> None:
        trouble, state = "", None
        if not self._gives_state:
            try:
                state = self._layers.now()
            except Exception as error:
                trouble = f"the environment's state before its reset is not known: {error!r:.200}"
        self._draws.count(len(self._waiting))
        self._start_over((told, state, self._streams.now()) if state is not None else None, trouble)

    def _start_over(self, begun: tuple[dict[str, Any], EnvState, dict[str, Any]] | None, trouble: str = "") -> None:
        """Discard the record and start a new record with `begun`; if None, record nothing, because of `trouble`."""
        self._begun, self._trouble = begun, trouble
        self._waiting.clear()
        self._draws.clear()
        self._draws_at_resets.clear()
        self._actions, self._bytes, self._sums, self._room = [], 0, (0, 0), 0

    def _state_now(self) -> dict[str, Any]:
        if self._last is None:
            return {"way": "unknown", "reason": "the environment was not reset"}
        info = {key: value for key, value in self.info.items() if _can_be_saved(value)}
        told = {"obs": to_json(self._last), "info": to_json(info), "state": self._layers.now().to_plain()}
        return {"way": "state"} | told

    def _story(self) -> dict[str, Any]:
        if self._begun is None:
            return {"way": "unknown", "reason": self._trouble or "the environment was not reset"}
        options, state, streams = self._begun
        resets = [number for number, action in enumerate(self._actions) if action is _RESET]
        return {
            "way": "story", "options": to_json(options), "state": state.to_plain(),
            "streams": {name: plain_state(stream) for name, stream in streams.items()},
            "actions": many_to_json([action for action in self._actions if action is not _RESET]),
            "resets": resets, "draws": [self._draws.to_plain(), self._draws_at_resets.to_plain()], "sums": self._sums,
        }  # fmt: skip

    def _taken_up(self, state: Mapping[str, Any]) -> Arrival:
        obs, info = from_json(state["obs"]), from_json(state["info"])
        try:
            restore_env(self.env, state["state"])
            check_taken(self.env, state["state"])
            self._own_streams().restore(state["own"])
        except Exception as error:
            return Arrival(None, {}, False, f"the environment rejected its saved state: {error!r:.200}")
        self._last, self.info = obs, info
        return Arrival(obs, info, True, "")

    def _repeated(self, state: Mapping[str, Any]) -> Arrival:
        actions, options = from_json(state["actions"]), from_json(state["options"])
        in_steps, at_resets = map(state_restorers, state["draws"])
        kept, wanted, layers, own = in_steps | at_resets, tuple(state["sums"]), state["state"], state["own"]
        resets, left = set(state["resets"]), iter(actions)
        entries = [_RESET if number in resets else next(left, _RESET) for number in range(len(actions) + len(resets))]
        most, self._most = self._most, math.inf  # no limit, because the saved episode was short enough
        try:
            restore_env(self.env, layers)
            if state["streams"].keys() - self._streams_of_env().names:  # a reset creates the others
                self.env.reset()
                restore_env(self.env, layers)
            self._streams = self._streams_of_env()
            self._streams.restore(state["streams"])
            self._start_over(None)
            for number, action in enumerate(entries):
                for put_back in kept.get(number, ()):
                    put_back()
                if action is _RESET:
                    self.reset(**({} if number else options))
                else:
                    self.step(action)
            self._digest()
            if self._sums != wanted:
                raise ValueError(_OTHERWISE)
            self._own_streams().restore(own)
        except Exception as error:
            return Arrival(None, {}, False, f"the environment did not reach its saved state: {error!r:.300}")
        finally:
            self._most = most
        return Arrival(self._last, self.info, True, "")


def taped(envs: Sequence[Any]) -> list[Any]:
    """Return the environments, each wrapped in an `EpisodeTape` if it is not already a tape."""
    return [env if isinstance(env, EpisodeTape) else EpisodeTape(env, num_envs=len(envs)) for env in envs]


def _checksum_of_rewards(rewards_and_flags: Sequence[tuple[Any, ...]], total: int) -> int:
    """Return a checksum of the numbers as doubles. The result does not depend on how they are split into calls."""
    with contextlib.suppress(TypeError, ValueError, RuntimeError, OverflowError):
        numbers = np.array(rewards_and_flags, np.float64)
        if numbers.ndim == 2:
            return zlib.crc32(numbers.tobytes(), total)
    for each in rewards_and_flags:
        with contextlib.suppress(TypeError, ValueError, RuntimeError, OverflowError):  # other code reports the error
            numbers = np.array([part.item() if hasattr(part, "item") else part for part in each], np.float64)
            total = zlib.crc32(numbers.tobytes(), total)
    return total


def _bytes_of(action: Any) -> int:
    """Return the approximate size of an action in bytes: the maximum of its sizes in memory and in a file."""
    if type(action) is int:
        return 40
    if isinstance(action, np.ndarray | np.generic):
        return 128 + action.nbytes * 4 // 3
    try:
        return 128 + 2 * len(json.dumps(to_json(action)))
    except TypeError:  # reported when the action is saved
        return 1024


def _can_be_saved(value: Any) -> bool:
    try:
        to_json(value)
    except TypeError:
        return False
    return True
