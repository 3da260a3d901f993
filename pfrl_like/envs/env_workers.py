"""The workers of `MultiprocessVectorEnv`: commands, replacement of workers, and observations in shared memory."""

import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

from pfrl_like.env import mend_gym, reset_values, seed_env
from pfrl_like.envs.env_states import restore_between_episodes, state_between_episodes
from pfrl_like.envs.episode_tape import EpisodeTape
from pfrl_like.envs.vector_stream import Rows
from pfrl_like.errors import WorkerError
from pfrl_like.processes import WaitingEnd, Workers
from pfrl_like.processes.shared_arrays import Layout, SharedArrays
from pfrl_like.utils.env_values import space_kind
from pfrl_like.utils.random_seed import set_random_seed

#: Reason why the episode of an environment cannot be replayed after its worker was replaced.
REPLACED = "its worker has been replaced"
_LOGGER = logging.getLogger(__name__)
_START = "start"


class Slot(int):
    """Placeholder in a message for an array that is stored in the shared array with this index."""


class SharedObservations:
    """Shared memory for the latest observation of each environment.

    An array that has the shape and dtype of its space is stored in shared memory, and the message contains a `Slot`
    instead. All other values are sent in the message, so that every observation is transferred unchanged.

    Args:
        space: Observation space of one environment: any nesting of Dict, Tuple and array spaces.
        num_envs: Number of environments.
        name: Name of existing shared memory to attach to; None allocates shared memory.

    Attributes:
        name: Name of the shared memory; empty if the space has no arrays, so that no memory is needed.

    Raises:
        OSError: If there is not enough shared memory.
    """

    def __init__(self, space: Any, num_envs: int, name: str | None = None) -> None:
        leaves: list[tuple[tuple[int, ...], str]] = []
        self._tree = _tree(space, leaves)
        layout: Layout = tuple(((num_envs, *shape), dtype) for shape, dtype in leaves)
        self._memory: SharedArrays | None = None
        if layout:
            self._memory = SharedArrays(layout) if name is None else SharedArrays.attach(name, layout)
        self.name = self._memory.name if self._memory else ""

    @property
    def arrays(self) -> Sequence[NDArray[Any]]:
        """Shared arrays, each of shape [num_envs, ...]."""
        return self._memory.arrays if self._memory else ()

    def put(self, index: int, obs: Any) -> Any:
        """Store the observation of environment `index` and return the message for it."""
        message = self._put(self._tree, index, obs)
        if self._tree == 0:  # one array, the usual case: pickling a class is slow
            return 0 if type(message) is Slot else (obs,)
        return message

    def message(self, obs: Any) -> Any:
        """Return a message that contains the observation itself."""
        return (obs,) if self._tree == 0 else obs

    def get(self, messages: Sequence[Any]) -> tuple[Any, ...]:
        """Return the observations of all environments as new arrays, given their messages."""
        if self._tree == 0:
            if all(type(message) is int for message in messages):
                return Rows.of(self.arrays[0].copy())
            messages = [Slot(0) if type(message) is int else message and message[0] for message in messages]
        return tuple(self._get(self._tree, index, message) for index, message in enumerate(messages))

    def unlink(self) -> None:
        """Remove the name of the shared memory after all processes have attached."""
        if self._memory is not None:
            self._memory.unlink()

    def close(self) -> None:
        """Release the memory."""
        if self._memory is not None:
            self._memory.close()

    def _put(self, tree: Any, index: int, obs: Any) -> Any:
        if isinstance(tree, int):
            place = self.arrays[tree]
            if type(obs) is np.ndarray and obs.dtype == place.dtype and obs.shape == place.shape[1:]:
                place[index] = obs
                return Slot(tree)
        elif isinstance(tree, dict):
            if type(obs) in (dict, OrderedDict) and obs.keys() == tree.keys():
                return type(obs)((key, self._put(tree[key], index, item)) for key, item in obs.items())
        elif isinstance(tree, tuple) and type(obs) is tuple and len(obs) == len(tree):
            return tuple(self._put(part, index, item) for part, item in zip(tree, obs, strict=True))
        return obs

    def _get(self, tree: Any, index: int, message: Any) -> Any:
        if type(message) is Slot:
            return self.arrays[message][index].copy()
        if isinstance(tree, dict) and type(message) in (dict, OrderedDict) and message.keys() == tree.keys():
            return type(message)((key, self._get(tree[key], index, item)) for key, item in message.items())
        if isinstance(tree, tuple) and type(message) is tuple and len(message) == len(tree):
            return tuple(self._get(part, index, item) for part, item in zip(tree, message, strict=True))
        return message


def _tree(space: Any, leaves: list[tuple[tuple[int, ...], str]]) -> Any:
    """Return the nesting of the space: an array index for each array space, else None. Appends to `leaves`."""
    kind = space_kind(space)
    if kind == "dict":
        return {key: _tree(part, leaves) for key, part in space.spaces.items()}
    if kind == "tuple":
        return tuple(_tree(part, leaves) for part in space.spaces)
    if kind in ("box", "multi_discrete", "multi_binary") and not np.dtype(space.dtype).hasobject:
        leaves.append((tuple(space.shape), np.dtype(space.dtype).str))
        return len(leaves) - 1
    return None


def serve_env(
    channel: WaitingEnd, index: int, make_env: Callable[[], Any], entropy: Sequence[int], num_envs: int
) -> None:
    """Make an environment, send its spaces, and answer commands until the other end of the pipe is closed.

    Args:
        channel: The worker's end of the pipe. Commands are pairs (name, argument).
        index: Index of this environment.
        make_env: Function that returns the environment.
        entropy: Seed of the global random streams of this process. Environments that use these streams then differ from
            each other, and are the same in the next run with the same seed. The entropy contains a number that depends
            on the seed, the index and, for a replacement worker, the number of workers replaced so far. A replacement
            worker also seeds its environment.
        num_envs: Number of environments.
    """
    of_streams, seed = map(int, np.random.SeedSequence(entropy).generate_state(2))
    set_random_seed(of_streams)
    env = make_env()
    mend_gym(env)
    try:
        space = getattr(env, "observation_space", None)
        channel.send(cloudpickle.dumps((space, getattr(env, "action_space", None))))
        answers = _Answers(env, index, num_envs)
        if len(entropy) > 2:
            with contextlib.suppress(ValueError):  # the environment accepts no seed
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
    """Answers of a worker, with one method for each command."""

    def __init__(self, env: Any, index: int, num_envs: int) -> None:
        self._env, self._index, self._num_envs = env, index, num_envs
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
            return result  # the parent reports the error
        return (self._shared.put(self._index, result[0]), *result[1:])

    def reset(self, _: None) -> tuple[Any, Any]:
        seed, self._seed = self._seed, None
        obs, info = reset_values(self._env.reset() if seed is None else self._env.reset(seed=seed))
        return self._shared.put(self._index, obs), info

    def seed(self, seed: int | None) -> None:
        if seed is not None and not seed_env(self._env, seed):
            self._seed = seed

    def record(self, _: None) -> None:
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
        try:
            return state_between_episodes(self._env, alone=True)
        except Exception as error:  # raised by the user's code
            return f"{error!r:.200}"

    def restore_between_episodes(self, state: Any) -> str:
        try:
            restore_between_episodes(self._env, state, alone=True)
        except ValueError as error:
            return str(error)
        return ""

    def spec(self, _: None) -> bytes:
        try:
            packed: bytes = cloudpickle.dumps(getattr(self._env, "spec", None))
        except Exception:  # `spec` contains an object that cannot be sent to another process
            packed = cloudpickle.dumps(None)
        return packed


class EnvWorkers(Workers):
    """Workers that each serve an environment.

    Args:
        factories: Functions that make the environments. They can be sent to processes of any start method.
        entropy: Seed of the random streams of the workers and of replacement workers.
        start_method: Start method of the processes.
        timeout: Maximum time to wait for an answer, in seconds; None for no limit.
        restarts: Maximum number of replacements of workers.

    Attributes:
        cut: Reasons why episodes were truncated, keyed by the environment's index, until they are reported.
        spaces: First message of worker 0.
        greeting: Command and argument that are sent to each new worker, set by `greet`.
    """

    def __init__(
        self,
        factories: Sequence[Callable[[], Any]],
        entropy: int,
        start_method: str | None,
        timeout: float | None,
        restarts: int,
    ) -> None:
        self.timeout, self.restarts, self.n_restarted = timeout, restarts, 0
        self.cut: dict[int, str] = {}
        self.greeting: tuple[str, Any] | None = None
        self._asked = _START
        self._factories, self._entropy = factories, entropy
        super().__init__(
            serve_env, [self._told(i, ()) for i in range(len(factories))], start_method=start_method, name="env"
        )
        try:
            self.spaces: bytes = self.receive(timeout=timeout)[0]
        except BaseException:
            self.close()
            raise

    def ask(self, command: str, arguments: Mapping[int, Any]) -> list[Any]:
        """Send a command to some workers and wait for their answers.

        Raises:
            WorkerError: If a worker fails.
        """
        self._asked = command
        for index, argument in arguments.items():
            self.send(index, (command, argument), self.timeout)
        return self.receive(arguments, None if command == "restore_state" else self.timeout)  # no time limit

    def greet(self, command: str, argument: Any) -> None:
        """Send a command to all workers, and send it to each replacement worker as its first command."""
        self.greeting = (command, argument)
        self.ask(command, dict.fromkeys(range(len(self)), argument))

    def ask_who_can(self, command: str, arguments: Mapping[int, Any]) -> dict[int, Any]:
        """Return the answers of workers that do not fail. Failed workers are replaced and listed in `cut`.

        Raises:
            WorkerError: If a worker fails and no replacements are left.
        """
        self._asked = command
        for index, argument in arguments.items():
            try:
                if index not in self.cut:
                    self.send(index, (command, argument), self.timeout)
            except WorkerError as error:
                self._replace(error, command)
        while True:
            owing = [index for index in arguments if index not in self.cut]
            try:
                return dict(zip(owing, self.receive(owing, self.timeout), strict=True))
            except WorkerError as error:
                self._replace(error, command)

    def limit(self) -> str:
        """Return a text with the command and its time limit; for the start of a worker it also explains the limit."""
        if self._asked == _START:
            return (
                f": step_timeout is {self.timeout:g} s, which also bounds the start of a worker (importing modules, "
                "making its environment) and may be larger"
            )
        return f": it was asked for {self._asked!r}, and step_timeout is {self.timeout:g} s"

    def _replace(self, error: WorkerError, command: str) -> None:
        """Replace a failed worker, and all workers that fail in the meantime."""
        failed, fresh = [error], dict[int, bool]()  # new workers; True if the greeting was sent
        while failed or fresh:
            try:
                if not failed:
                    self._welcome(fresh)
            except WorkerError as another:
                failed.append(another)
            if failed:
                error = failed.pop()
                self._put_another(error)
                fresh[error.index] = False
        self._asked = command  # restore the value that `_welcome` changed

    def _put_another(self, error: WorkerError) -> None:
        if self.n_restarted == self.restarts:
            if self.restarts:
                error.add_note(f"{self.restarts} workers had been replaced before, of {self.restarts} that may be")
            raise error
        self.n_restarted += 1
        _LOGGER.warning("%s\nIt is replaced: %d of %d times", error, self.n_restarted, self.restarts)
        self.cut[error.index] = error.reason
        self.restart(error.index, self._told(error.index, (self.n_restarted,)))

    def _welcome(self, fresh: dict[int, bool]) -> None:
        """Wait for the next answer of a new worker: first the answer at its start, then the answer to the greeting."""
        index, greeted = next(iter(fresh.items()))
        self._asked = self.greeting[0] if greeted and self.greeting else _START
        self.receive([index], self.timeout)
        if greeted or self.greeting is None:
            del fresh[index]
        else:
            self.send(index, self.greeting, self.timeout)
            fresh[index] = True

    def _told(self, index: int, n_restarted: tuple[int, ...]) -> tuple[Any, ...]:
        return (self._factories[index], (self._entropy, index, *n_restarted), len(self._factories))
