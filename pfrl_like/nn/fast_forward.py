"""Fast calls of modules without `nn.Module.__call__`, and calls for many items in few chunks."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules import module as hooks

from pfrl_like.batch import map_nested

Class = TypeVar("Class", bound=type[nn.Module])

_FUNCTIONS: dict[type[nn.Module], Callable[[Any], Any]] = {nn.Tanh: torch.tanh, nn.Sigmoid: torch.sigmoid}
_KNOWN: set[type[nn.Module]] = {nn.Sequential, nn.Linear, nn.ReLU, *_FUNCTIONS}
#: Maximum rows of a call on a CPU. With many more rows the outputs exceed the CPU caches, which takes a third more
#: time.
_ROWS_IN_CACHE = 512


def fast_forward(module: Any, x: Any) -> Any:
    """Return `module(x)`; standard layers without hooks are computed with the equivalent functions.

    The function inspects the layers in each call, so that hooks, parameters and layers may change. A ReLU after a
    linear layer works in place on the output of the linear layer, which is in the CPU cache and has no other user.
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
            plain = "weight" in params and "bias" in params  # True if both are parameters, or the bias is None
            x = F.linear(x, params["weight"], params["bias"]) if plain else layer(x)
            made_here = x if plain and x.ndim == 2 else None  # with more dimensions `x` is a view
        elif kind is nn.ReLU:
            x = torch.relu_(x) if layer.inplace or x is made else torch.relu(x)
        else:
            x = _FUNCTIONS[kind](x)
    return x


def stands_for(function: Callable[[Any], Any]) -> Callable[[Class], Class]:
    """Class decorator for layers that compute a function of only their input; it does not apply to subclasses."""

    def register(cls: Class) -> Class:
        _FUNCTIONS[cls] = function
        _KNOWN.add(cls)
        return cls

    return register


def apply_in_chunks(function: Callable[[Any, Tensor], Tensor], obs: Any, items: Tensor) -> Tensor:
    """Apply a function to M items in each of N states, [M, N, ...], in few calls on a CPU, else in one call.

    Args:
        function: Function of observations, [m * N, ...], and items, [m * N, ...], that returns one row per item.
        obs: Observations, nested tensors [N, ...].
        items: Items, [M, N, ...].
    """
    m, n = items.shape[:2]
    tracing = torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    one_call = items.device.type != "cpu" or tracing
    size = m if one_call else max(1, _ROWS_IN_CACHE // max(1, n))
    parts = [items[i : i + size] for i in range(0, m, size)]
    given = torch.cat([function(repeat_rows(obs, part.shape[0]), part.flatten(0, 1)) for part in parts])
    return given.view(m, n, *given.shape[1:])


def repeat_rows(nested: Any, m: int) -> Any:
    """Return m concatenated copies of all rows, tensors [m * N, ...] with the same nesting."""
    return map_nested(lambda leaf: leaf.unsqueeze(0).expand(m, *leaf.shape).flatten(0, 1), nested)
