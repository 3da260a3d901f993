"""Training or evaluation, of an agent that several threads may act with: each has a mode of its own."""

import contextlib
import inspect
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from pfrl_like.utils.contexts import kept_over_forks

_LOCK = kept_over_forks(threading.Lock())
_EVALUATING = "_evaluating_threads"


class _Threads:
    """The threads that are in evaluation, how often each has entered it, and the mode of all others.

    Threads that are started within it, such as those of a pool, are in it, too: each that enters notes who was there.
    """

    def __init__(self, training: bool) -> None:
        self.training = training
        self.entered: dict[int, int] = {}
        self._there: dict[int, weakref.WeakSet[threading.Thread]] = {}

    def enter(self, thread: int) -> None:
        if thread not in self.entered:
            self._there[thread] = weakref.WeakSet(threading.enumerate())
        self.entered[thread] = self.entered.get(thread, 0) + 1

    def leave(self, thread: int) -> None:
        self.entered[thread] -= 1
        if not self.entered[thread]:
            del self.entered[thread], self._there[thread]

    def is_evaluating(self) -> bool:
        """True if the current thread is in evaluation, or was started by one that is."""
        if threading.get_ident() in self.entered:
            return True
        current = threading.current_thread()
        return any(current not in there for there in [*self._there.values()])


class Mode:
    """The class attribute `training` of agents.

    An agent has a plain attribute of this name, which is found first; it is taken away, so that reading comes here,
    only while a thread is in `evaluating_here`.

    Args:
        training: Its value where nobody has set it.
    """

    def __init__(self, training: bool = True) -> None:
        self.training = training

    def __get__(self, agent: Any, owner: Any = None) -> bool:
        if agent is None:
            return self.training
        threads: _Threads | None = agent.__dict__.get(_EVALUATING)
        if threads is not None:
            return threads.training and not threads.is_evaluating()
        with _LOCK:
            training: bool = agent.__dict__.get("training", self.training)
            if _EVALUATING not in agent.__dict__:
                agent.__dict__["training"] = training  # from now on it is found there
            return training


def with_plain_mode(state: Any, agent: Any) -> Any:
    """What an agent is copied by: the copy has, in every thread, the mode in which it is copied."""
    if isinstance(state, dict) and _EVALUATING in state:
        state = {name: value for name, value in state.items() if name != _EVALUATING} | {"training": agent.training}
    return state


@contextlib.contextmanager
def evaluating_here(agent: Any, alone: bool) -> Iterator[None]:
    """Within it `training` of an agent is False in this thread, and afterwards what it was.

    Args:
        agent: The agent.
        alone: Whether no two threads may be in it.

    Raises:
        RuntimeError: If they are.
    """
    if not isinstance(inspect.getattr_static(type(agent), "training", None), Mode):  # a property of the user's
        before, agent.training = agent.training, False
        try:
            yield
        finally:
            agent.training = before
        return
    here = threading.get_ident()
    with _LOCK:
        own = agent.__dict__
        threads = own.get(_EVALUATING) or _Threads(own.get("training", type(agent).training))
        if alone and threads.entered.keys() - {here}:
            raise RuntimeError(
                f"two threads are in eval_mode of a {type(agent).__name__} that remembers the episode it acts in; each "
                "thread needs its own copy: copy.deepcopy(agent)"
            )
        threads.enter(here)
        own[_EVALUATING] = threads
        own.pop("training", None)
    try:
        yield
    finally:
        with _LOCK:
            threads.leave(here)
            if not threads.entered:
                own["training"] = threads.training
                own.pop(_EVALUATING, None)
