"""Context managers that switch modules and agents to evaluation mode. Several threads may use them."""

import contextlib
import inspect
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.modules import activation, container, conv, flatten, linear, padding, pixelshuffle, pooling, upsampling

Class = TypeVar("Class", bound=type[nn.Module])
NO_LOCK: AbstractContextManager[None] = contextlib.nullcontext()
#: Name of the attribute in which a module caches the result of `reads_training`. A compiler can trace an attribute, but
#: not a dictionary with weak keys.
_READS_TRAINING = "_pfrl_like_reads_training"
_RNN_FORWARDS = {cls.forward for cls in (nn.RNNBase, nn.RNN, nn.GRU, nn.LSTM)}
_EVALUATING = "_evaluating_threads"


def hold_during_fork(lock: Any) -> Any:
    """Hold a lock during every `os.fork`, so that no other thread holds the lock at this time. Return the lock."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock


#: Lock for the mode of modules. All threads share this mode. A thread acquires the lock to switch modules to evaluation
#: mode, or to train modules whose forward pass reads the mode.
MODE_LOCK = hold_during_fork(threading.RLock())
_LOCK = hold_during_fork(threading.Lock())


@contextlib.contextmanager
def evaluating(net: nn.Module) -> Iterator[nn.Module]:
    """Switch a module to evaluation mode, and restore the mode of every submodule at the end.

    Other threads wait until the mode is restored.

    Args:
        net: The module.
    """
    is_compiling = torch.compiler.is_compiling()  # a compiler traces only one thread
    with contextlib.nullcontext() if is_compiling else MODE_LOCK:
        before = [(part, part.training) for part in net.modules()]
        is_plain = not is_compiling and all(_is_plain(part) for part, _ in before)
        if is_plain:
            for part, _ in before:
                vars(part)["training"] = False  # `nn.Module.__setattr__` takes ten times as long
        else:
            net.eval()
        try:
            yield net
        finally:
            if is_plain:
                for part, training in before:
                    vars(part)["training"] = training
            else:  # a user-defined `train` may do more than set the attribute
                if before[0][1]:
                    net.train()
                for part, training in before:
                    part.training = training


def block_evaluation(*modules: Any) -> AbstractContextManager[Any]:
    """Return a context manager that prevents other threads from switching modules to evaluation mode.

    If no forward pass of the modules reads the mode, the result is `NO_LOCK`.

    Args:
        modules: Modules to train. Objects that are not modules are skipped.
    """
    reads = any(isinstance(module, nn.Module) and _reads_training(module) for module in modules)
    return MODE_LOCK if reads else NO_LOCK


def _is_plain(part: nn.Module) -> bool:
    """True if `train` and `eval` of a submodule only set the attribute `training`."""
    cls = type(part)
    methods = cls.train, cls.eval, cls.__setattr__
    return methods == (nn.Module.train, nn.Module.eval, nn.Module.__setattr__) and "training" in vars(part)


def evaluation_mode(module: nn.Module) -> AbstractContextManager[nn.Module]:
    """Return `evaluating(module)`. If the forward pass does not read the mode, the context manager does nothing."""
    reads = getattr(module, _READS_TRAINING, None)
    if reads is None:
        reads = _reads_training(module)
    return evaluating(module) if reads else contextlib.nullcontext(module)


def keep_mode(*modules: nn.Module) -> None:
    """Let `evaluation_mode` leave modules in their mode. `evaluating` switches them as before."""
    for module in modules:
        setattr(module, _READS_TRAINING, False)


def evaluation_mode_of_all(*modules: nn.Module) -> AbstractContextManager[None]:
    """Return a context manager that enters `evaluation_mode` for each module."""
    readers = [module for module in modules if _reads_training(module)]
    return _evaluating_all(readers) if readers else contextlib.nullcontext()


@contextlib.contextmanager
def _evaluating_all(modules: Sequence[nn.Module]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for module in modules:
            stack.enter_context(evaluating(module))
        yield


def _reads_training(module: nn.Module) -> bool:
    """Return the cached result of `reads_training`."""
    reads: bool | None = getattr(module, _READS_TRAINING, None)
    if reads is None:
        reads = reads_training(module)
        setattr(module, _READS_TRAINING, reads)
    return reads


def reads_training(module: nn.Module) -> bool:
    """True if a forward pass may depend on `training`.

    Only these submodules are known not to read `training`: PyTorch's layers without dropout and running statistics,
    containers, and classes with the decorator `ignores_training`. The function assumes that all other submodules, and
    all submodules with hooks, read `training`.
    """
    return any(_part_reads_training(part) for part in module.modules())


def ignores_training(cls: Class) -> Class:
    """Class decorator. It declares that the method `forward` of a module does not read `training`.

    The declaration applies to all functions that `forward` calls. It does not apply to child modules, and not to
    subclasses that override `forward`.
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


_MODULES = (activation, container, conv, flatten, linear, padding, pixelshuffle, pooling, upsampling)
_LAYERS: list[Any] = [getattr(module, name) for module in _MODULES for name in module.__all__]
_LAYERS += [nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.LocalResponseNorm, nn.Embedding, nn.EmbeddingBag]
_LAYERS += [nn.RNNCell, nn.GRUCell, nn.LSTMCell]
_KNOWN_FORWARDS = {cls.forward for cls in _LAYERS if hasattr(cls, "forward")}
_KNOWN_FORWARDS -= {nn.RReLU.forward, nn.MultiheadAttention.forward}


class _Threads:
    """Threads in evaluation mode, and the mode of all other threads.

    A thread that is started while another thread is in evaluation mode, for example in a thread pool, is in evaluation
    mode, too. To recognise such threads, each thread that enters evaluation mode records the existing threads.

    Args:
        training: Mode of all other threads.
    """

    def __init__(self, training: bool) -> None:
        self.training = training
        self.entered: dict[int, int] = {}
        self._existing_threads: dict[int, weakref.WeakSet[threading.Thread]] = {}

    def enter(self, thread: int) -> None:
        if thread not in self.entered:
            self._existing_threads[thread] = weakref.WeakSet(threading.enumerate())
        self.entered[thread] = self.entered.get(thread, 0) + 1

    def leave(self, thread: int) -> None:
        self.entered[thread] -= 1
        if not self.entered[thread]:
            del self.entered[thread], self._existing_threads[thread]

    def is_evaluating(self) -> bool:
        """True if the current thread is in evaluation mode, or was started after another thread entered it."""
        if threading.get_ident() in self.entered:
            return True
        current = threading.current_thread()
        return any(current not in threads for threads in [*self._existing_threads.values()])


class Mode:
    """Descriptor of the class attribute `training` of agents.

    Usually an agent has an instance attribute `training`, which takes precedence over this descriptor.
    `evaluating_in_thread` removes the instance attribute. Until the context ends, reads then use the descriptor.

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
                agent.__dict__["training"] = training  # later reads use the instance attribute
            return training


def state_with_mode(state: Any, agent: Any) -> Any:
    """Return the state for a copy of an agent. The mode of the copy is the agent's mode in the current thread."""
    if isinstance(state, dict) and _EVALUATING in state:
        state = {name: value for name, value in state.items() if name != _EVALUATING} | {"training": agent.training}
    return state


@contextlib.contextmanager
def evaluating_in_thread(agent: Any, alone: bool) -> Iterator[None]:
    """Set `training` of an agent to False in this thread, and restore it at the end.

    Args:
        agent: The agent.
        alone: True if only one thread at a time may be in the context.

    Raises:
        RuntimeError: If a second thread enters the context and `alone` is True.
    """
    if not isinstance(inspect.getattr_static(type(agent), "training", None), Mode):  # a user-defined property
        before, agent.training = agent.training, False
        try:
            yield
        finally:
            agent.training = before
        return
    thread = threading.get_ident()
    with _LOCK:
        attributes = agent.__dict__
        threads = attributes.get(_EVALUATING) or _Threads(attributes.get("training", type(agent).training))
        if alone and threads.entered.keys() - {thread}:
            raise RuntimeError(f"two threads are in eval_mode of {type(agent).__name__}: use copy.deepcopy(agent)")
        threads.enter(thread)
        attributes[_EVALUATING] = threads
        attributes.pop("training", None)
    try:
        yield
    finally:
        with _LOCK:
            threads.leave(thread)
            if not threads.entered:
                attributes["training"] = threads.training
                attributes.pop(_EVALUATING, None)
