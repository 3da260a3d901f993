"""Worker processes of `MultiprocessVectorEnv`: commands, replacement of failed workers, and shared observations."""

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
    """Index of a shared array. A message contains it in place of the array."""


class SharedObservations:
    """Shared memory for the latest observation of each environment.

    An array with the shape and dtype of its space is stored in shared memory, and the message contains a `Slot` in its
    place. All other values are sent in the message.

    Args:
        space: Observation space of one environment: any nesting of Dict, Tuple and array spaces.
        num_envs: Number of environments.
        name: Name of existing shared memory to attach to. If None, new shared memory is allocated.

    Attributes:
        name: Name of the shared memory. Empty if the space has no arrays.

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
        """Store the observation of environment `index` in shared memory. Return the message to send."""
        message = self._put(self._tree, index, obs)
        if self._tree == 0:  # one array, the usual case: pickling a class is slow
            return 0 if type(message) is Slot else (obs,)
        return message

    def message(self, obs: Any) -> Any:
        """Return a message that contains the complete observation, without shared memory."""
        return (obs,) if self._tree == 0 else obs

    def get(self, messages: Sequence[Any]) -> tuple[Any, ...]:
        """Return the observations of all environments, copied from shared memory or taken from the messages."""
        if self._tree == 0:
            if all(type(message) is int for message in messages):
                return Rows.of(self.arrays[0].copy())
            messages = [Slot(0) if type(message) is int else message and message[0] for message in messages]
        return tuple(self._get(self._tree, index, message) for index, message in enumerate(messages))

    def unlink(self) -> None:
        """Remove the name of the shared memory. Call this method after all processes have attached to it."""
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
    """Return the nesting of the space, with an index in place of each array space, and None in place of other spaces.

    The shape and dtype of each array space are appended to `leaves`.
    """
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
        entropy: Numbers from which the seed of this process's global random streams is computed: a number that depends
            on the seed of the main process, the index and, for a replacement worker, the number of workers replaced so
            far. A replacement worker also computes a seed of its environment from these numbers.
        num_envs: Number of environments.
    """
    stream_seed, env_seed = map(int, np.random.SeedSequence(entropy).generate_state(2))
    set_random_seed(stream_seed)
    env = make_env()
    mend_gym(env)
    try:
        space = getattr(env, "observation_space", None)
        channel.send(cloudpickle.dumps((space, getattr(env, "action_space", None))))
        commands = _Commands(env, index, num_envs)
        if len(entropy) > 2:
            with contextlib.suppress(ValueError):  # the environment accepts no seed
                commands.seed(env_seed)
        while True:
            try:
                command, argument = channel.recv()
            except EOFError:
                return
            channel.send(getattr(commands, command)(argument))
    finally:
        close = getattr(env, "close", None)
        if callable(close):
            close()


class _Commands:
    """Commands of a worker. The method with the name of the command executes it and returns the answer."""

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
        state = {"way": "unknown", "reason": REPLACED}
        if self._tape is not None:
            state = self._tape.saved_state()
        self.record(None)
        return state

    def restore_state(self, state: Any) -> Any:
        self.record(None)
        result = self._tape.restore_state(state)
        if result.exact:
            self._seed = None  # it belongs to the start of the saved run
        return result._replace(obs=self._shared.put(self._index, result.obs)) if result.exact else result

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
        factories: Functions that make the environments and that can be sent to processes of any start method.
        entropy: Number from which the seeds of the workers' random streams are computed.
        start_method: Start method of the processes.
        timeout: Maximum time to wait for an answer, in seconds. None for no limit.
        restarts: Maximum number of replacements of workers.

    Attributes:
        failures: Reasons why workers were replaced, keyed by the environment's index. The next step returns the reasons
            in its infos and clears the dict.
        spaces: Pickled spaces of environment 0.
        first_command: Command and argument that each replacement worker receives first, set by `ask_first`.
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
        self.failures: dict[int, str] = {}
        self.first_command: tuple[str, Any] | None = None
        self._last_command = _START
        self._factories, self._entropy = factories, entropy
        super().__init__(
            serve_env, [self._arguments_of(i, ()) for i in range(len(factories))], start_method=start_method, name="env"
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
        self._last_command = command
        for index, argument in arguments.items():
            self.send(index, (command, argument), self.timeout)
        return self.receive(arguments, None if command == "restore_state" else self.timeout)  # no time limit

    def ask_first(self, command: str, argument: Any) -> None:
        """Send a command to all workers, and later to each replacement worker as its first command."""
        self.first_command = (command, argument)
        self.ask(command, dict.fromkeys(range(len(self)), argument))

    def ask_or_replace(self, command: str, arguments: Mapping[int, Any]) -> dict[int, Any]:
        """Send a command, replace workers that fail and list them in `failures`. Return the answers of the others.

        Raises:
            WorkerError: If a worker fails and no replacements are left.
        """
        self._last_command = command
        for index, argument in arguments.items():
            try:
                if index not in self.failures:
                    self.send(index, (command, argument), self.timeout)
            except WorkerError as error:
                self._replace(error, command)
        while True:
            waiting = [index for index in arguments if index not in self.failures]
            try:
                return dict(zip(waiting, self.receive(waiting, self.timeout), strict=True))
            except WorkerError as error:
                self._replace(error, command)

    def limit(self) -> str:
        """Return the text that ends the error message about an exceeded time limit: the command and the limit."""
        if self._last_command == _START:
            advice = "which also limits the start of a worker: pass a larger step_timeout"
            return f": step_timeout is {self.timeout:g} s, {advice}"
        return f": the command was {self._last_command!r}, and step_timeout is {self.timeout:g} s"

    def _replace(self, error: WorkerError, command: str) -> None:
        """Replace a failed worker, and all workers that fail while it is replaced."""
        failed, new_workers = [error], dict[int, bool]()  # new workers; True if the first command was sent
        while failed or new_workers:
            try:
                if not failed:
                    self._initialize(new_workers)
            except WorkerError as another:
                failed.append(another)
            if failed:
                error = failed.pop()
                self._start_replacement(error)
                new_workers[error.index] = False
        self._last_command = command  # restore the value that `_initialize` changed

    def _start_replacement(self, error: WorkerError) -> None:
        if self.n_restarted == self.restarts:
            if self.restarts:
                error.add_note(f"{self.restarts} workers have been replaced, and max_restarts is {self.restarts}")
            raise error
        self.n_restarted += 1
        _LOGGER.warning("%s\nThe worker is replaced (%d of at most %d)", error, self.n_restarted, self.restarts)
        self.failures[error.index] = error.reason
        self.restart(error.index, self._arguments_of(error.index, (self.n_restarted,)))

    def _initialize(self, new_workers: dict[int, bool]) -> None:
        """Wait for the next answer of a new worker: first its spaces, then the answer to the first command."""
        index, has_command = next(iter(new_workers.items()))
        self._last_command = self.first_command[0] if has_command and self.first_command else _START
        self.receive([index], self.timeout)
        if has_command or self.first_command is None:
            del new_workers[index]
        else:
            self.send(index, self.first_command, self.timeout)
            new_workers[index] = True

    def _arguments_of(self, index: int, n_restarted: tuple[int, ...]) -> tuple[Any, ...]:
        return (self._factories[index], (self._entropy, index, *n_restarted), len(self._factories))
