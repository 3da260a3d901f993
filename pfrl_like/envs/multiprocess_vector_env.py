"""`MultiprocessVectorEnv`: several environments, each in its own process."""

import signal
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property
from typing import Any, TypeVar

import cloudpickle  # type: ignore[import-untyped]

from pfrl_like.env import VectorEnv, mend_gym, reset_values, seed_env
from pfrl_like.envs.env_workers import REPLACED, EnvWorkers, SharedObservations
from pfrl_like.envs.vector_stream import check_action_count, join_steps, seed_list, skip_mask, truncated_step
from pfrl_like.errors import EnvError, WorkerError
from pfrl_like.processes import send
from pfrl_like.processes.worker import sendable
from pfrl_like.random_streams.streams import global_entropy
from pfrl_like.utils.checks import check_choice, check_counts, check_seconds, takes_integral_floats

Answers = TypeVar("Answers")


def worker(remote: Any, env_fn: Callable[[], Any]) -> None:
    """Make an environment and answer commands until the command "close", or until the other end of the pipe closes.

    This is PFRL's protocol. A subclass of `MultiprocessVectorEnv` with its own `__init__` uses it as the target of its
    processes.

    Args:
        remote: `multiprocessing.Connection` through which the commands "step", "reset", "close", "get_spaces", "spec"
            and "seed" come, as pairs (command, argument).
        env_fn: Function that makes the environment.

    Raises:
        NotImplementedError: If the command is unknown.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process handles Ctrl-C
    env = env_fn()
    mend_gym(env)

    def seed(number: int | None) -> None:
        if number is not None and not seed_env(env, number):
            env.reset(seed=number)

    commands: dict[str, Callable[[Any], Any]] = {
        "step": env.step, "reset": lambda _: env.reset(), "seed": seed,
        "get_spaces": lambda _: (env.action_space, env.observation_space),
        "spec": lambda _: getattr(env, "spec", None),
    }  # fmt: skip
    try:
        while True:
            try:
                command, argument = remote.recv()
            except EOFError:
                return
            if command == "close":
                return
            if command not in commands:
                raise NotImplementedError(f"command is {command!r}, expected one of {[*commands, 'close']}")
            send(remote, commands[command](argument))
    finally:
        remote.close()
        env.close()


class MultiprocessVectorEnv(VectorEnv):
    """Environments that run in parallel, each in its own process.

    Array observations are passed through shared memory, other values through pipes. If an environment raises an error
    or a worker dies, the current call and all later calls raise this error with its traceback, and all workers end. The
    workers also end after Ctrl-C, and when this process ends for any reason. If an environment has started programs,
    they end with the worker, except programs that run in their own session.

    As in PFRL, a subclass may start its own processes, set `remotes` and `last_obs`, and not call `super().__init__`.
    Its processes answer the commands of `worker`. Shared memory, time limits and replacements are then not available.

    Args:
        env_fns: Functions that each return one environment. Lambdas are allowed.
        start_method: Start method of the processes: "fork", "spawn" or "forkserver". If None, the method that
            `multiprocessing.set_start_method` has chosen is used. If none has been chosen, or if it is fork and this
            process has other threads or uses CUDA, forkserver is used if the system has it, else spawn. With
            "forkserver" and "spawn", the call must be inside `if __name__ == "__main__":` in the script.
        step_timeout: Maximum time of a step, a reset or the construction of an environment, in seconds. If None, there
            is no limit. A worker that exceeds this time is ended, and the error names the command (for example "step").
            Increase the default only if a step, reset or construction takes longer.
        shared_memory: True to pass observations through shared memory.
        on_worker_failure: Reaction if an environment raises an error in a step or reset, or if its worker dies or
            exceeds the time limit. With "raise", all workers are ended and the error is raised. With "restart", a new
            worker makes the environment again and seeds it. The episode then ends with a truncated step that has the
            reward 0 and repeats the last observation. `info["worker_restarted"]` of this step contains the reason. If
            the environments return four values, `done` is False, and `info["needs_reset"]` is True.
        max_restarts: Maximum number of restarts. After these, a failure raises an error.

    Attributes:
        observation_space: Observation space of one environment.
        action_space: Action space of one environment.
        last_obs: Latest observations. Empty before the first reset.
        closed: True if the environments have been closed.
        remotes: Pipes to the processes of a subclass that starts its own processes, one for each environment.
        ps: Processes of such a subclass. `close` waits for their ends.

    Raises:
        ValueError: If `env_fns` is empty, if the start method is not available, or if an argument is out of range.
        TypeError: If an item of `env_fns` is not a function or cannot be sent to another process, or if a numeric
            argument is not a number.
        WorkerError: If the construction of an environment fails or exceeds the time limit.
        RuntimeError: If this is a daemonic process, because it cannot start processes. Use `SerialVectorEnv` there.
    """

    # Class attributes, so that a subclass need not call `__init__`.
    observation_space: Any = None
    action_space: Any = None
    last_obs: Sequence[Any] = ()
    closed: bool = False
    remotes: Sequence[Any] = ()
    ps: Sequence[Any] = ()
    _workers: EnvWorkers | None = None
    _shared = SharedObservations(None, 0)  # no memory
    _messages: Sequence[Any] = ()
    _resets_with_info = False
    _replaces = False
    _failure: WorkerError | None = None

    @takes_integral_floats
    def __init__(
        self,
        env_fns: Sequence[Callable[[], Any]],
        start_method: str | None = None,
        *,
        step_timeout: float | None = 600.0,
        shared_memory: bool = True,
        on_worker_failure: str = "raise",
        max_restarts: int = 3,
    ) -> None:
        if len(env_fns) == 0:
            raise ValueError("env_fns is empty, expected at least one function that makes an environment")
        for i, make_env in enumerate(env_fns):
            if not callable(make_env):
                kind = type(make_env).__name__
                raise TypeError(
                    f"env_fns[{i}] is {make_env!r:.80} ({kind}), expected a function that makes an environment"
                )
        check_choice("on_worker_failure", on_worker_failure, ("raise", "restart"))
        check_counts(least=0, max_restarts=max_restarts)
        check_seconds(optional=True, step_timeout=step_timeout)
        factories = [sendable(make_env, f"env_fns[{i}]", start_method) for i, make_env in enumerate(env_fns)]
        self._replaces = on_worker_failure == "restart"
        restarts = max_restarts if self._replaces else 0
        self._workers = EnvWorkers(factories, global_entropy(), start_method, step_timeout, restarts)
        try:
            self.observation_space, self.action_space = cloudpickle.loads(self._workers.spaces)
            if shared_memory:
                self._share_memory()
        except BaseException:
            self.close()
            raise

    @property
    def num_envs(self) -> int:  # type: ignore[override]  # PFRL's subclasses do not set it
        """Number of environments."""
        return len(self.remotes or self._workers or ())

    @property
    def can_record(self) -> bool:
        """True if `saved_state` is available, because the processes are not those of a subclass."""
        return not self.remotes

    @cached_property
    def spec(self) -> Any:
        """`spec` of the first environment; None if the environment has no `spec`."""
        spec = self._ask("spec", {0: None})[0]
        return spec if self.remotes else cloudpickle.loads(spec)

    @property
    def step_timeout(self) -> float | None:
        """Maximum time to wait for an answer, in seconds."""
        return None if self._workers is None else self._workers.timeout

    def step(self, actions: Any) -> Any:
        """Step all environments. Return the four or five values of `VectorEnv.step`, as many as the environments.

        Raises:
            ValueError: If the number of actions is wrong.
            EnvError: If the environments do not all return four values or all return five values, or if they have been
                closed.
            WorkerError: If an environment raised an error or its worker died, and the worker is not replaced.
        """
        check_action_count(actions, self.num_envs)
        failures = self._failures
        answers = self._ask_or_replace("step", {i: one for i, one in enumerate(actions) if i not in failures})
        if failures:
            usual = 5 if self._resets_with_info else 4
            n_values = next((len(answer) for answer in answers.values()), usual)
            # The message contains the last observation, because the observation in shared memory may be incomplete.
            last = {i: self._shared.message(self.last_obs[i]) for i in failures}
            answers |= {i: truncated_step(last[i], reason, n_values) for i, reason in failures.items()}
            failures.clear()
        messages, *rest = join_steps([answers[i] for i in range(self.num_envs)])
        self._messages = list(messages)
        self.last_obs = self._shared.get(messages)
        return (self.last_obs, *rest)

    def reset(self, mask: Any = None) -> Any:
        """Start new episodes in the environments where `mask` is not True.

        Returns:
            A tuple of observations. If the environments return (obs, info), a pair of the tuple of observations and a
            list of infos. The info of an environment that was not reset is an empty dict.

        Raises:
            ValueError: If the length of `mask` is not the number of environments.
            EnvError: If the environments have been closed.
            WorkerError: If an environment raised an error or its worker died, and the worker is not replaced.
        """
        to_reset = [i for i, skip in enumerate(skip_mask(mask, self.num_envs)) if not skip]
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        messages = list(self._messages) or [None] * self.num_envs
        while to_reset:
            for i in to_reset:
                self._failures.pop(i, None)
            for i, (message, info) in self._ask_or_replace("reset", dict.fromkeys(to_reset)).items():
                messages[i] = message
                self._resets_with_info = info is not None
                infos[i] = info or {}
            to_reset = [i for i in to_reset if i in self._failures]  # their workers were replaced
        self._messages, self.last_obs = messages, self._shared.get(messages)
        return (self.last_obs, infos) if self._resets_with_info else self.last_obs

    def seed(self, seeds: Any = None) -> None:
        """Seed the environments. An environment applies its seed immediately or at its next reset.

        Args:
            seeds: One integer for each environment, one integer for all environments, or None to seed no environment.

        Raises:
            ValueError: If the number of seeds is wrong.
            WorkerError: If an environment accepts no seed.
        """
        self._ask("seed", dict(enumerate(seed_list(seeds, self.num_envs))))

    def record(self) -> None:
        """Start to record episodes, so that `saved_state` can save them."""
        self._ask("record", dict.fromkeys(range(self.num_envs)))

    def saved_state(self) -> dict[str, Any]:
        """Return the state for `restore_state`, with the global random streams of the workers. Call `record` first.

        Raises:
            EnvError: If the environments have been closed.
            WorkerError: If a worker died and is not replaced.
        """
        states = self._ask_or_replace("saved_state", dict.fromkeys(range(self.num_envs)))
        unknown = {"way": "unknown", "reason": REPLACED}
        return {"episodes": [states.get(i, unknown) for i in range(self.num_envs)]}

    def restore_state(self, state: Mapping[str, Any]) -> list[Any]:
        """Restore the environments to a saved state. Call `record` first.

        Returns:
            The `RestoreResult` of each environment.
        """
        self._check_number(state["episodes"])
        results = self._ask("restore_state", dict(enumerate(state["episodes"])))
        if not all(result.exact for result in results):
            return results
        self._messages = [result.obs for result in results]
        self.last_obs = self._shared.get(self._messages)
        return [result._replace(obs=obs) for result, obs in zip(results, self.last_obs, strict=True)]

    def states_between_episodes(self) -> list[dict[str, Any]]:
        """Return the states of the environments and of their random streams between two episodes.

        Raises:
            EnvError: If an environment does not return its state. The vector environment can still be used.
            WorkerError: If a worker died and is not replaced.
        """
        if self.remotes:
            raise EnvError(f"{type(self).__name__} has its own processes, which do not return their states")
        answers = self._ask_or_replace("state_between_episodes", dict.fromkeys(range(self.num_envs)))
        states = [answers.get(i, REPLACED) for i in range(self.num_envs)]
        for i, state in enumerate(states):
            if isinstance(state, str):
                raise EnvError(f"the state of environment {i} cannot be read: {state}")
        return states

    def restore_between_episodes(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Restore the result of `states_between_episodes`. The same actions then lead to the same episodes.

        Raises:
            ValueError: If the states were saved from other environments, or if an environment rejects its state.
        """
        self._check_number(states)
        reasons = self._ask("restore_between_episodes", dict(enumerate(states)))
        if any(reasons):
            raise ValueError(next(filter(None, reasons)))

    def _check_number(self, states: Sequence[Any]) -> None:
        if len(states) != self.num_envs:
            raise ValueError(f"state has {len(states)} environments, expected {self.num_envs}")

    def close(self) -> None:
        """Close the environments and end their processes (by force after 3 s). A second call does nothing."""
        if not self.closed:
            for remote in self.remotes:
                with suppress(OSError):  # the process has ended
                    send(remote, ("close", None))
            for process in self.ps:
                process.join()
        self.closed = True
        if self._workers is not None:
            self._workers.close()
        self._shared.close()

    def __del__(self) -> None:
        if self.remotes:  # otherwise the interpreter would wait for the processes
            self.close()

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("cannot copy a MultiprocessVectorEnv: its environments are in other processes")

    @property
    def _failures(self) -> dict[int, str]:
        """Reasons why workers were replaced, keyed by the index of the environment."""
        return {} if self._workers is None else self._workers.failures

    def _share_memory(self) -> None:
        assert self._workers is not None
        try:
            self._shared = SharedObservations(self.observation_space, self.num_envs)
        except OSError as error:
            warnings.warn(f"observations go through pipes, which is slower: no shared memory ({error})", stacklevel=3)
            return
        try:
            self._workers.ask_first("attach", (self._shared.name, cloudpickle.dumps(self.observation_space)))
        finally:
            if not self._workers.restarts:
                self._shared.unlink()

    def _ask(self, command: str, arguments: Mapping[int, Any]) -> list[Any]:
        """Send a command to some workers and wait for their answers."""
        if self._workers is None:
            return [*self._ask_remotes(command, arguments).values()]
        return self._ask_or_close(self._workers.ask, command, arguments)

    def _ask_or_replace(self, command: str, arguments: Mapping[int, Any]) -> dict[int, Any]:
        """Send a command to some workers, return the answers of those that do not fail, and replace failed workers."""
        if self._workers is None:
            return self._ask_remotes(command, arguments)
        try:
            return self._ask_or_close(self._workers.ask_or_replace, command, arguments)
        except WorkerError as error:
            if not self._replaces:
                error.add_note('MultiprocessVectorEnv(..., on_worker_failure="restart") replaces workers that fail')
            raise

    def _ask_or_close(self, ask: Callable[..., Answers], command: str, arguments: Mapping[int, Any]) -> Answers:
        """Call `ask`. If it fails, end all workers, because a later call could receive answers to this call."""
        assert self._workers is not None
        if self._failure is not None:  # the caller may have caught the error, for example to write a checkpoint
            raise copy(self._failure)
        self._assert_not_closed()
        try:
            return ask(command, arguments)
        except BaseException as error:
            self._failure = copy(error) if isinstance(error, WorkerError) else None
            self._workers.close(hurry=not isinstance(error, Exception))
            self.close()
            raise

    def _ask_remotes(self, command: str, arguments: Mapping[int, Any]) -> dict[int, Any]:
        """Send a command to some processes of a subclass, and wait for their answers."""
        self._assert_not_closed()
        for i, argument in arguments.items():
            send(self.remotes[i], (command, argument))
        answers = {i: self.remotes[i].recv() for i in arguments}
        return {i: reset_values(answer) for i, answer in answers.items()} if command == "reset" else answers

    def _assert_not_closed(self) -> None:
        if self.closed:
            raise EnvError("this vector environment has been closed")
