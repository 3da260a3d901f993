"""Contexts for training and evaluation mode: of modules, and of agents that several threads act with."""

import contextlib
import inspect
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.modules import activation, container, conv, flatten, linear, padding, pixelshuffle, pooling, upsampling

Class = TypeVar("Class", bound=type[nn.Module])
FREE: AbstractContextManager[None] = contextlib.nullcontext()
#: Attribute of a module that caches whether it reads its mode; a compiler that traces this can follow an attribute, but
#: no dictionary of weak keys.
_READS_TRAINING = "_pfrl_like_reads_training"
_RNN_FORWARDS = {cls.forward for cls in (nn.RNNBase, nn.RNN, nn.GRU, nn.LSTM)}
_EVALUATING = "_evaluating_threads"


def kept_over_forks(lock: Any) -> Any:
    """Make forks wait for a lock, so that no child finds it locked or its data half changed; returns the lock."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock


#: Held by the one thread that has put a module into evaluation mode, or learns with a module that reads its mode: modes
#: belong to modules, not to threads.
MODES = kept_over_forks(threading.RLock())
_LOCK = kept_over_forks(threading.Lock())


@contextlib.contextmanager
def evaluating(module: nn.Module) -> Iterator[nn.Module]:
    """Put a module into evaluation mode, and restore its mode afterwards; threads take turns.

    Afterwards every part has its previous mode, including parts that their owner keeps in evaluation mode.
    """
    is_compiling = torch.compiler.is_compiling()  # then there are no other threads
    with contextlib.nullcontext() if is_compiling else MODES:
        before = [(part, part.training) for part in module.modules()]
        plain = not is_compiling and all(_is_plain(part) for part, _ in before)
        if plain:
            for part, _ in before:
                vars(part)["training"] = False  # avoids `nn.Module.__setattr__`, which takes ten times as long
        else:
            module.eval()
        try:
            yield module
        finally:
            if plain:
                for part, training in before:
                    vars(part)["training"] = training
            else:  # a user's own `train` may do more than set an attribute
                if before[0][1]:
                    module.train()
                for part, training in before:
                    part.training = training


def learning(*modules: Any) -> AbstractContextManager[Any]:
    """Context in which no other thread puts these modules into evaluation mode; `FREE` if none of them reads its mode.

    Args:
        modules: The modules; other objects are skipped.
    """
    reads = any(isinstance(module, nn.Module) and _reads_training(module) for module in modules)
    return MODES if reads else FREE


def _is_plain(part: nn.Module) -> bool:
    """True if the mode of a part is only its attribute."""
    cls = type(part)
    methods = cls.train, cls.eval, cls.__setattr__
    return methods == (nn.Module.train, nn.Module.eval, nn.Module.__setattr__) and "training" in vars(part)


def evaluating_readers(module: nn.Module) -> AbstractContextManager[nn.Module]:
    """`evaluating`, except for modules whose forward pass does not read the mode.

    This is determined once for each module.
    """
    reads = getattr(module, _READS_TRAINING, None)
    if reads is None:  # the result is cached
        reads = _reads_training(module)
    return evaluating(module) if reads else contextlib.nullcontext(module)


def evaluating_readers_among(*modules: nn.Module) -> AbstractContextManager[None]:
    """`evaluating_readers` of several modules at once."""
    readers = [module for module in modules if _reads_training(module)]
    return _evaluating_all(readers) if readers else contextlib.nullcontext()


@contextlib.contextmanager
def _evaluating_all(modules: Sequence[nn.Module]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for module in modules:
            stack.enter_context(evaluating(module))
        yield


def _reads_training(module: nn.Module) -> bool:
    """`reads_training`, determined once for each module."""
    reads: bool | None = getattr(module, _READS_TRAINING, None)
    if reads is None:
        reads = reads_training(module)
        setattr(module, _READS_TRAINING, reads)
    return reads


def reads_training(module: nn.Module) -> bool:
    """True if a forward pass may depend on `training`, so that the mode must be correct.

    It may, unless no part of the module is known to read it. These parts are known not to: PyTorch's own layers without
    dropout and running statistics, containers, and classes marked with `ignores_training`. User-defined classes with
    their own `forward`, and parts with hooks, count as reading it.
    """
    return any(_part_reads_training(part) for part in module.modules())


def ignores_training(cls: Class) -> Class:
    """Class decorator: declares that a module's own `forward`, and the functions it calls, do not read `training`.

    Its child modules are checked separately. A subclass with another `forward` is not included.
    """
    _KNOWN_FORWARDS.add(cls.forward)
    return cls


def _part_reads_training(part: nn.Module) -> bool:
    cls = type(part)
    if (
        "forward" in vars(part)
        or part._forward_hooks
        or part._forward_pre_hooks
        or (cls.__call__, cls.train, cls.eval) != (nn.Module.__call__, nn.Module.train, nn.Module.eval)
    ):
        return True
    if isinstance(part, nn.RNNBase):
        return bool(part.dropout) or cls.forward not in _RNN_FORWARDS
    return cls.forward not in _KNOWN_FORWARDS


def _forwards(*namespaces: Any) -> set[Callable[..., Any]]:
    classes = [getattr(namespace, name) for namespace in namespaces for name in namespace.__all__]
    return {cls.forward for cls in classes if hasattr(cls, "forward")}


_KNOWN_FORWARDS = _forwards(activation, container, conv, flatten, linear, padding, pixelshuffle, pooling, upsampling)
_KNOWN_FORWARDS -= {nn.RReLU.forward, nn.MultiheadAttention.forward}
_KNOWN_FORWARDS |= {
    cls.forward
    for cls in (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.LocalResponseNorm, nn.Embedding, nn.EmbeddingBag, nn.RNNCell)
    + (nn.GRUCell, nn.LSTMCell)
}


class _Threads:
    """Threads in evaluation mode, the number of times each has entered it, and the mode of all other threads.

    Threads that are started in evaluation mode, such as those of a pool, are in it, too: each thread that enters
    records the threads that exist at that time.
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
    """Class attribute `training` of agents.

    An agent has a plain attribute of this name, which takes precedence. It is removed only while a thread is in
    `evaluating_here`, so that reads reach this descriptor.

    Args:
        training: Default value of the mode.
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
                agent.__dict__["training"] = training  # later reads find this attribute
            return training


def with_plain_mode(state: Any, agent: Any) -> Any:
    """State from which an agent is copied: in every thread the copy has the mode of the agent at this moment."""
    if isinstance(state, dict) and _EVALUATING in state:
        state = {name: value for name, value in state.items() if name != _EVALUATING} | {"training": agent.training}
    return state


@contextlib.contextmanager
def evaluating_here(agent: Any, alone: bool) -> Iterator[None]:
    """Context in which `training` of an agent is False in this thread; restored afterwards.

    Args:
        agent: The agent.
        alone: Whether only one thread may be in it at a time.

    Raises:
        RuntimeError: If a second thread enters although `alone` is True.
    """
    if not isinstance(inspect.getattr_static(type(agent), "training", None), Mode):  # a user's own property
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
                f"two threads are in eval_mode of {type(agent).__name__}, which remembers the episode it acts in; each "
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
