"""A module in evaluation mode for the length of a block: `evaluating`, and `evaluating_readers` for hot paths."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.modules import activation, container, conv, flatten, linear, padding, pixelshuffle, pooling, upsampling

Class = TypeVar("Class", bound=type[nn.Module])


_LOCK = threading.Lock()
#: Parts of modules that are kept in evaluation mode, by their numbers: how often, the mode otherwise, the part itself.
_held: dict[int, list[Any]] = {}


@contextlib.contextmanager
def evaluating(module: nn.Module) -> Iterator[nn.Module]:
    """Put a module into evaluation mode and back.

    Afterwards every part is in the mode it was in before, a part that its owner keeps in evaluation mode included;
    where threads do this at once, or blocks lie within each other, once the last one has left.
    """
    if torch.compiler.is_compiling():  # which knows of no other threads
        before = [(part, part.training) for part in module.modules()]
        module.eval()
        try:
            yield module
        finally:
            _restore(module, before)
        return
    parts = list(module.modules())
    plain = all(map(_is_plain, parts))
    with _LOCK:
        for part in parts:
            held = _held.get(id(part))
            if held is None:
                _held[id(part)] = [1, part.training, part]
            else:
                held[0] += 1
            if plain:
                vars(part)["training"] = False  # past `nn.Module.__setattr__`, which takes ten times as long
        if not plain:
            module.eval()
    try:
        yield module
    finally:
        with _LOCK:
            free = []
            for part in parts:
                held = _held[id(part)]
                held[0] -= 1
                if not held[0]:
                    del _held[id(part)]
                    free.append((part, held[1]))
                    if plain:
                        vars(part)["training"] = held[1]
            if not plain:
                _restore(module, [*((part, False) for part in parts), *free])


def _restore(module: nn.Module, modes: Sequence[tuple[nn.Module, bool]]) -> None:
    """Bring a module whose own `train` may do more than set an attribute back to the modes of its parts."""
    if dict(modes)[module]:
        module.train()
    for part, training in modes:
        part.training = training


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
