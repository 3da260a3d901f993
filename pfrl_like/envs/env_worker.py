"""The body of a worker process of `MultiprocessVectorEnv`: one environment that does what the pipe says."""

import contextlib
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from pfrl_like.env import mend_gym, reset_values, seed_env
from pfrl_like.envs.shared_observations import SharedObservations
from pfrl_like.processes import WaitingEnd

#: Why nobody knows how the episode of an environment came about that was made again.
REPLACED = "its worker has been replaced"


def serve_env(
    channel: WaitingEnd, index: int, make_env: Callable[[], Any], entropy: Sequence[int], num_envs: int
) -> None:
    """Make an environment, send its spaces, then answer commands until the other end of the pipe is closed.

    Args:
        channel: The worker's end of the pipe; commands are pairs (name, argument).
        index: Which environment this is.
        make_env: Makes it.
        entropy: Seeds the global random streams of this process, so that environments that draw from them differ from
            each other and are the same in the next run of the same seed: a number that follows from that, the index
            and, of a worker that replaces another, how many had been replaced. Such a one seeds its environment, too.
        num_envs: How many environments there are.
    """
    seed = _seed_global_streams(entropy)
    env = make_env()
    mend_gym(env)
    try:
        space = getattr(env, "observation_space", None)
        channel.send(cloudpickle.dumps((space, getattr(env, "action_space", None))))
        answers = _Answers(env, index, space, num_envs)
        if len(entropy) > 2:
            with contextlib.suppress(ValueError):  # it takes none
                answers.seed(seed)
        while True:
            try:
                command, argument = channel.recv()
            except EOFError:
                return
            channel.send(getattr(answers, command)(argument))
    finally:
        close = getattr(env, "close", None)
        if callable(close):
            close()


class _Answers:
    """One method for each command."""

    def __init__(self, env: Any, index: int, space: Any, num_envs: int) -> None:
        self._env, self._index, self._space, self._num_envs = env, index, space, num_envs
        self._shared = SharedObservations(None, num_envs)
        self._seed: int | None = None
        self._tape: Any = None

    def attach(self, name_and_space: tuple[str, bytes]) -> None:
        name, packed_space = name_and_space
        if name:
            self._shared = SharedObservations(cloudpickle.loads(packed_space), self._num_envs, name)

    def step(self, action: Any) -> Any:
        result = self._env.step(action)
        if not isinstance(result, tuple | list) or len(result) not in (4, 5):
            return result  # the parent says what is wrong
        return (self._shared.put(self._index, result[0]), *result[1:])

    def reset(self, _: None) -> tuple[Any, Any]:
        seed, self._seed = self._seed, None
        obs, info = reset_values(self._env.reset() if seed is None else self._env.reset(seed=seed))
        return self._shared.put(self._index, obs), info

    def seed(self, seed: int | None) -> None:
        if seed is not None and not seed_env(self._env, seed):
            self._seed = seed

    def record(self, _: None) -> None:
        from pfrl_like.envs.episode_tape import EpisodeTape  # for few runs, and it needs torch

        if self._tape is None:
            self._env = self._tape = EpisodeTape(self._env, alone=True, num_envs=self._num_envs)

    def saved_state(self, _: None) -> Any:
        told = {"way": "unknown", "reason": REPLACED}
        if self._tape is not None:
            told = self._tape.saved_state()
        self.record(None)
        return told

    def restore_state(self, state: Any) -> Any:
        self.record(None)
        arrival = self._tape.restore_state(state)
        return arrival._replace(obs=self._shared.put(self._index, arrival.obs)) if arrival.exact else arrival

    def state_between_episodes(self, _: None) -> Any:
        from pfrl_like.envs.env_states import state_between_episodes  # for few runs, and it needs torch

        try:
            return state_between_episodes(self._env, alone=True)
        except Exception as error:  # of code of the user's
            return f"{error!r:.200}"

    def restore_between_episodes(self, state: Any) -> str:
        from pfrl_like.envs.env_states import restore_between_episodes  # for few runs, and it needs torch

        try:
            restore_between_episodes(self._env, state, alone=True)
        except ValueError as error:
            return str(error)
        return ""

    def spec(self, _: None) -> bytes:
        try:
            packed: bytes = cloudpickle.dumps(getattr(self._env, "spec", None))
        except Exception:  # it holds what no other process can have
            packed = cloudpickle.dumps(None)
        return packed


def _seed_global_streams(entropy: Sequence[int]) -> int:
    """Seed them; returns a further seed."""
    seed, further = map(int, np.random.SeedSequence(entropy).generate_state(2))
    random.seed(seed)
    np.random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)
    return further
