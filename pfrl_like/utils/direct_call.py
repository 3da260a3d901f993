"""Calls of layers past `nn.Module.__call__`, which takes as long as the mathematics of a small layer."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules import module as hooks

Class = TypeVar("Class", bound=type[nn.Module])


def call(module: Any, x: Any) -> Any:
    """`module(x)`; well-known layers into which nobody has hooked are called as the functions that they stand for.

    They are looked at anew with each call, so that hooks, parameters and layers may come and go. A ReLU writes into
    what the linear layer before it has just made, which is still in the cache and which nobody else has seen.
    """
    if (
        hooks._global_forward_hooks
        or hooks._global_forward_pre_hooks
        or hooks._global_backward_hooks
        or hooks._global_backward_pre_hooks
        or torch.compiler.is_compiling()
    ):
        return module(x)
    layers = [module]
    made_here = None
    while layers:
        layer, made = layers.pop(), made_here
        kind, made_here = type(layer), None
        if kind not in _KNOWN:
            x = layer(x)
            continue
        own = layer.__dict__
        if (
            own["_forward_hooks"]
            or own["_forward_pre_hooks"]
            or own["_backward_hooks"]
            or own["_backward_pre_hooks"]
            or "forward" in own
            or own.get("_compiled_call_impl")
        ):
            x = layer(x)
        elif kind is nn.Sequential:
            layers.extend(reversed(own["_modules"].values()))
        elif kind is nn.Linear:
            params = own["_parameters"]
            plain = "weight" in params and "bias" in params  # both are parameters, or the bias is None
            x = F.linear(x, params["weight"], params["bias"]) if plain else layer(x)
            made_here = x if plain and x.ndim == 2 else None  # of more dimensions it is a view
        elif kind is nn.ReLU:
            x = torch.relu_(x) if layer.inplace or x is made else torch.relu(x)
        else:
            x = _FUNCTIONS[kind](x)
    return x


def stands_for(function: Callable[[Any], Any]) -> Callable[[Class], Class]:
    """Class decorator of a layer whose result is that of a function of its input alone; not of its subclasses."""

    def register(cls: Class) -> Class:
        _FUNCTIONS[cls] = function
        _KNOWN.add(cls)
        return cls

    return register


_FUNCTIONS: dict[type[nn.Module], Callable[[Any], Any]] = {nn.Tanh: torch.tanh, nn.Sigmoid: torch.sigmoid}
_KNOWN: set[type[nn.Module]] = {nn.Sequential, nn.Linear, nn.ReLU, *_FUNCTIONS}
