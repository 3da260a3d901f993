"""What becomes of what a run cannot write, as on a full disk: the one place that decides."""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from pfrl_like.errors import CheckpointError
from pfrl_like.runs.secrets import masked_text


class FailedWrites:
    """Ends training for the first failure, or only tells each file's, once.

    Args:
        logger: Told.
        stops: Whether the first failure ends training; those after an end, of whatever reason, are told.

    Attributes:
        lacking: Why, by name, for what is not, or not wholly, in the run directory now.
        ended_by: The error that has ended training; None for none.
    """

    is_elsewhere = True  # nothing in it draws random numbers, see `utils.reachable_streams`

    def __init__(self, logger: logging.Logger, *, stops: bool) -> None:
        self.logger, self.stops = logger, stops
        self.lacking: dict[str, str] = {}
        self.ended_by: BaseException | None = None
        self._files: list[Any] = []
        self._names: set[str] = set()  # that have been told

    def govern(self, things: Sequence[Any], *, stops: bool = True) -> None:
        """Decide for the files of several things: what their `writes_to`, if they have that, names.

        Args:
            things: Loggers, callbacks and others.
            stops: Whether they are worth the end of training.
        """
        named = (getattr(thing, "writes_to", None) for thing in things)
        files = [file for several in named if isinstance(several, tuple) for file in several]  # a mock has it all
        for file in files:
            file.told = partial(self.told, stops=stops)
        self._files += files

    def push(self) -> None:
        """Let all these files hold what they can.

        Raises:
            CheckpointError: If something cannot be written and that ends training.
        """
        for file in self._files:
            file.push()

    @contextlib.contextmanager
    def told(self, name: str, *, stops: bool = True) -> Iterator[None]:
        """A context to write something in.

        Args:
            name: What it is called.
            stops: Whether it is worth the end of training.

        Raises:
            CheckpointError: If it cannot be written and that ends training.
        """
        try:
            yield
        except CheckpointError as error:
            if stops and self.stops and self.ended_by in (None, error):
                self.ended_by = error
                self._names.add(name)
                raise
            self.lacking[name] = masked_text(str(error))
            if name not in self._names:
                self._names.add(name)  # first, since the log is a file, too
                self.logger.error("%s could not be saved: %s", name, error)
        else:
            self.lacking.pop(name, None)
