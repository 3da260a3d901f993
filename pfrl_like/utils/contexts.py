"""A module in evaluation mode for the length of a block: `evaluating`, and `evaluating_readers` for hot paths."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.modules import activation, container, conv, flatten, linear, padding, pixelshuffle, pooling, upsampling

Class = TypeVar("Class", bound=type[nn.Module])


def kept_over_forks(lock: Any) -> Any:
    """The lock, which forks wait for, so that no child finds it locked, nor what it guards half done."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock


#: Held by the one thread that has put a module into evaluation mode, or learns with a module that reads its mode: modes
#: belong to modules, and not to threads.
MODES = kept_over_forks(threading.RLock())
FREE: AbstractContextManager[None] = contextlib.nullcontext()


@contextlib.contextmanager
def evaluating(module: nn.Module) -> Iterator[nn.Module]:
    """Put a module into evaluation mode and back; threads do so in turn.

    Afterwards every part is in the mode it was in before, a part that its owner keeps in evaluation mode included.
    """
    is_compiling = torch.compiler.is_compiling()  # where there are no other threads
    with contextlib.nullcontext() if is_compiling else MODES:
        before = [(part, part.training) for part in module.modules()]
        plain = not is_compiling and all(_is_plain(part) for part, _ in before)
        if plain:
            for part, _ in before:
                vars(part)["training"] = False  # past `nn.Module.__setattr__`, which takes ten times as long
        else:
            module.eval()
        try:
            yield module
        finally:
            if plain:
                for part, training in before:
                    vars(part)["training"] = training
            else:  # whose own `train` may do more than set an attribute
                if before[0][1]:
                    module.train()
                for part, training in before:
                    part.training = training


def learning(*modules: Any) -> AbstractContextManager[Any]:
    """A block in which no other thread puts these modules into evaluation mode; `FREE` if none of them reads its mode.

    Args:
        modules: What is no module is passed over.
    """
    reads = any(isinstance(module, nn.Module) and _reads_training(module) for module in modules)
    return MODES if reads else FREE


def _is_plain(part: nn.Module) -> bool:
    """Whether the mode of a part is its attribute and nothing more."""
    cls = type(part)
    methods = cls.train, cls.eval, cls.__setattr__
    return methods == (nn.Module.train, nn.Module.eval, nn.Module.__setattr__) and "training" in vars(part)


def evaluating_readers(module: nn.Module) -> AbstractContextManager[nn.Module]:
    """`evaluating`, which leaves a module alone whose forward pass does not read the mode.

    Whether it does is found out once for each module.
    """
    reads = getattr(module, _READS_TRAINING, None)
    if reads is None:  # the next time the call is spared
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
    """`reads_training`, found out once for each module."""
    reads: bool | None = getattr(module, _READS_TRAINING, None)
    if reads is None:
        reads = reads_training(module)
        setattr(module, _READS_TRAINING, reads)
    return reads


#: Where a module keeps the answer; a compiler that traces this can follow an attribute, but no dictionary of weak keys.
_READS_TRAINING = "_pfrl_like_reads_training"


def reads_training(module: nn.Module) -> bool:
    """Whether a forward pass may depend on `training`, in which case there must be no doubt about the mode.

    It may unless every part of the module is known not to read it: PyTorch's own layers without dropout and running
    statistics, containers, and classes marked with `ignores_training`. A class of the user's own that defines
    `forward` is taken to read it, and so is a part with hooks.
    """
    return any(_part_reads_training(part) for part in module.modules())


def ignores_training(cls: Class) -> Class:
    """Class decorator that says of a module's own `forward`: it does not read `training`, nor does what it calls.

    What its child modules do is looked at by itself. A subclass with another `forward` is not included.
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


_RNN_FORWARDS = {cls.forward for cls in (nn.RNNBase, nn.RNN, nn.GRU, nn.LSTM)}
_KNOWN_FORWARDS = _forwards(
    activation, container, conv, flatten, linear, padding, pixelshuffle, pooling, upsampling
) - {nn.RReLU.forward, nn.MultiheadAttention.forward}
_KNOWN_FORWARDS |= {
    cls.forward
    for cls in (nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.LocalResponseNorm, nn.Embedding, nn.EmbeddingBag, nn.RNNCell)
    + (nn.GRUCell, nn.LSTMCell)
}
