"""`MultiprocessVectorEnv`: several environments, each in a process of its own."""

import hashlib
import pickle
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from pfrl_like.env import VectorEnv
from pfrl_like.envs.env_worker import serve_env
from pfrl_like.envs.shared_observations import SharedObservations
from pfrl_like.envs.vector_values import check_action_count, join_steps, seed_list, skip_mask
from pfrl_like.errors import EnvError
from pfrl_like.processes.shared_arrays import ensure_tracker
from pfrl_like.processes.supervisor import Workers
from pfrl_like.processes.worker import Portable


class MultiprocessVectorEnv(VectorEnv):
    """Environments that step at the same time, each in its own process.

    Array observations come through shared memory, all else through pipes. An environment that raises and a worker
    that dies end the call that is running with its own traceback, and all workers with it; so does Ctrl-C. No worker
    outlives this process, however it ends.

    Args:
        env_fns: Functions that each make one environment; lambdas do.
        start_method: How processes start: "fork", "spawn" or "forkserver". None is forkserver where there is one, else
            spawn; both need the script's main part under `if __name__ == "__main__":`, fork does not.
        step_timeout: Seconds that a step or reset may take before its worker counts as lost; None is for ever.
        shared_memory: Whether observations may go through shared memory.

    Attributes:
        num_envs: How many environments there are.
        observation_space: That of one environment.
        action_space: That of one environment.
        last_obs: The observations returned last.

    Raises:
        ValueError: If there is no function or the start method is not available.
        TypeError: If a function cannot be sent to another process.
        WorkerError: If an environment cannot be made.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], Any]],
        start_method: str | None = None,
        *,
        step_timeout: float | None = None,
        shared_memory: bool = True,
    ) -> None:
        if len(env_fns) == 0:
            raise ValueError("env_fns is empty, expected at least one function that makes an environment")
        self.num_envs = len(env_fns)
        self.step_timeout = step_timeout
        self.last_obs: Sequence[Any] = (None,) * self.num_envs
        self._messages: list[Any] = [None] * self.num_envs
        self._tells_at_reset = False
        self._shared = SharedObservations(None, self.num_envs)
        factories = [Portable(make_env) for make_env in env_fns]
        if start_method != "fork":
            _pack(factories)
        ensure_tracker()
        entropy = _entropy()
        arguments = [(factory, entropy, self.num_envs) for factory in factories]
        self._workers = Workers(serve_env, arguments, start_method=start_method, name="env")
        try:
            packed_spaces = self._workers.receive()[0]
            self.observation_space, self.action_space = cloudpickle.loads(packed_spaces)
            if shared_memory:
                self._share_memory()
        except BaseException:
            self.close()
            raise

    @property
    def closed(self) -> bool:
        """Whether the environments have been closed."""
        return self._workers.closed

    @cached_property
    def spec(self) -> Any:
        """The `spec` of the first environment, None if it has none."""
        return cloudpickle.loads(self._ask("spec", {0: None})[0])

    def step(self, action: Any) -> Any:
        """Act in every environment; what comes back is that of `VectorEnv.step`, in the environments' own form.

        Raises:
            ValueError: If the number of actions is wrong.
            EnvError: If the environments do not all return four or all return five values, or have been closed.
            WorkerError: If an environment raised or its worker died.
        """
        check_action_count(action, self.num_envs)
        messages, *rest = join_steps(self._ask("step", dict(enumerate(action))))
        self._messages = list(messages)
        self.last_obs = self._shared.get(messages)
        return (self.last_obs, *rest)

    def reset(self, mask: Any = None) -> Any:
        """Start new episodes where `mask` is not True.

        Returns:
            A tuple of observations; with environments that return (obs, info), that and a list of dicts, empty ones
            where nothing was reset.

        Raises:
            ValueError: If the mask has a wrong length.
            EnvError: If the environments have been closed.
            WorkerError: If an environment raised or its worker died.
        """
        to_reset = [i for i, skip in enumerate(skip_mask(mask, self.num_envs)) if not skip]
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i, (message, info) in zip(to_reset, self._ask("reset", dict.fromkeys(to_reset)), strict=True):
            self._messages[i] = message
            self._tells_at_reset = info is not None
            infos[i] = info or {}
        self.last_obs = self._shared.get(self._messages)
        return (self.last_obs, infos) if self._tells_at_reset else self.last_obs

    def seed(self, seeds: Any = None) -> None:
        """Seed the environments, at once or at their next reset, as they take it.

        Args:
            seeds: One integer for each environment, one for all, or None for nothing.

        Raises:
            ValueError: If the number of seeds is wrong.
            WorkerError: If an environment takes no seed.
        """
        self._ask("seed", dict(enumerate(seed_list(seeds, self.num_envs))))

    def close(self) -> None:
        """Close the environments and end their processes, by force after 3 s; a second call does nothing."""
        self._workers.close()
        self._shared.close()

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("its environments live in other processes")

    def _share_memory(self) -> None:
        try:
            self._shared = SharedObservations(self.observation_space, self.num_envs)
        except OSError as error:
            warnings.warn(f"observations go through pipes, which is slower: no shared memory ({error})", stacklevel=3)
            return
        try:
            packed = cloudpickle.dumps(self.observation_space)
            self._ask("attach", dict.fromkeys(range(self.num_envs), (self._shared.name, packed)))
        finally:
            self._shared.unlink()

    def _ask(self, command: str, arguments: Mapping[int, Any]) -> list[Any]:
        """Send a command to some workers and wait for their answers; whatever goes wrong ends all workers."""
        if self.closed:
            raise EnvError("this vector environment has been closed")
        try:
            for index, argument in arguments.items():
                self._workers.send(index, (command, argument))
            return self._workers.receive(arguments, self.step_timeout)
        except BaseException:  # answers may be under way that the next call would take for its own
            self.close()
            raise


def _pack(factories: Sequence[Portable]) -> None:
    for index, factory in enumerate(factories):
        try:
            factory.pack()
        except TypeError as error:
            raise TypeError(f'env_fns[{index}]: {error}; start_method="fork" needs no sending') from error


def _entropy() -> int:
    """A number that follows from the state of the global NumPy stream, without a draw from it."""
    state = hashlib.sha256(pickle.dumps(np.random.get_state(legacy=False)))
    return int.from_bytes(state.digest()[:8], "little")
