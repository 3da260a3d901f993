"""`EnvWorkers`: the worker processes of a vector environment, which may be replaced when they fail."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pfrl_like.envs.env_worker import serve_env
from pfrl_like.errors import WorkerError
from pfrl_like.processes import Workers

_LOGGER = logging.getLogger(__name__)
_START = "start"


class EnvWorkers(Workers):
    """Workers that each serve an environment.

    Args:
        factories: Make the environments; they reach every kind of process.
        entropy: Seeds the random streams of the workers, and of those that replace them.
        start_method: How processes start.
        timeout: Seconds that an answer may take; None is for ever.
        restarts: How many workers may be replaced.

    Attributes:
        cut: Why the episode of an environment was cut off, by its index; until it is told.
        spaces: What the first message of worker 0 was.
        greeting: Command and argument that every worker gets when it begins, as soon as there is one; see `greet`.
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
        return self.receive(arguments, None if command == "restore_state" else self.timeout)  # that repeats episodes

    def greet(self, command: str, argument: Any) -> None:
        """Send a command to all workers and, before any other, to those that replace them."""
        self.greeting = (command, argument)
        self.ask(command, dict.fromkeys(range(len(self)), argument))

    def ask_who_can(self, command: str, arguments: Mapping[int, Any]) -> dict[int, Any]:
        """The answers of those workers that do not fail; the others are replaced, and in `cut`.

        Raises:
            WorkerError: If no more may be replaced.
        """
        self._asked = command
        for index, argument in arguments.items():
            try:
                if index not in self.cut:
                    self.send(index, (command, argument), self.timeout)
            except WorkerError as error:
                self._replace(error)
                self._asked = command
        while True:
            owing = [index for index in arguments if index not in self.cut]
            try:
                return dict(zip(owing, self.receive(owing, self.timeout), strict=True))
            except WorkerError as error:
                self._replace(error)
                self._asked = command

    def limit(self) -> str:
        """What was asked, and the seconds; at the start also what these are for."""
        if self._asked == _START:
            return (
                f": step_timeout is {self.timeout:g} s, which also bounds the start of a worker (importing modules, "
                "making its environment) and may be larger"
            )
        return f": it was asked for {self._asked!r}, and step_timeout is {self.timeout:g} s"

    def _replace(self, error: WorkerError) -> None:
        """Put another worker in the place of one that has failed, and in that of every other that fails meanwhile."""
        failed, fresh = [error], dict[int, bool]()  # new workers, and whether they have been greeted
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
        """Wait for the next answer that a new worker owes: that it has begun, then that to the greeting."""
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
