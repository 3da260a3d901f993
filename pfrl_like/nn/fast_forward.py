"""What a module takes and gives, as far as it is declared; calls past `nn.Module.__call__`, or in few chunks."""

import inspect
import typing
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.distributions import Distribution
from torch.nn import functional as F
from torch.nn.modules import module as hooks

from pfrl_like.batch import map_nested
from pfrl_like.utils.recurrent import is_recurrent

Class = TypeVar("Class", bound=type[nn.Module])
Rule = Callable[[Any], Any]

_LAYERS: dict[Any, Rule] = {layer.forward: lambda _: Tensor for layer in (nn.RNN, nn.GRU, nn.LSTM)}
_LAYERS[nn.Identity.forward] = lambda _: Any
_INPUTS: dict[Any, Rule] = {**_LAYERS}
_OUTPUTS: dict[Any, Rule] = {**_LAYERS}
_FUNCTIONS: dict[type[nn.Module], Callable[[Any], Any]] = {nn.Tanh: torch.tanh, nn.Sigmoid: torch.sigmoid}
_KNOWN: set[type[nn.Module]] = {nn.Sequential, nn.Linear, nn.ReLU, *_FUNCTIONS}
#: Rows of a call on a CPU: the layers' outputs for many more leave its caches, which costs a third more time.
_ROWS_IN_CACHE = 512


def output_of(module: nn.Module) -> Any:
    """Class of what a module gives; a tuple of such if it gives a tuple, and `Any` for what is not declared.

    A row of layers gives what the last one gives. The state that a recurrent module gives is left out.
    """
    return _declared(module, _OUTPUTS, "return")


def input_of(module: nn.Module) -> Any:
    """Class of what a module takes as its first argument; a tuple and `Any` as in `output_of`."""
    return _declared(module, _INPUTS, "input")


def declares(*, input: Rule | None = None, output: Rule | None = None) -> Callable[[Class], Class]:
    """Class decorator for a module's own `forward` that depends on the parts of the module.

    A subclass with another `forward` is not included.

    Args:
        input: Gives what `input_of` should, of a module of the class; None leaves it to the annotations.
        output: The same for `output_of`.
    """

    def register(cls: Class) -> Class:
        for rules, rule in ((_INPUTS, input), (_OUTPUTS, output)):
            if rule is not None:
                rules[cls.forward] = rule
        return cls

    return register


def may_be(declared: Any, wanted: type) -> bool:
    """Whether what is declared so is of a class, or may be: it is not declared, or only by an interface."""
    kind = tuple if isinstance(declared, tuple) else declared
    if kind is Any or issubclass(kind, wanted):
        return True
    return issubclass(wanted, kind) and (kind in (object, Distribution) or inspect.isabstract(kind))


def _declared(module: nn.Module, rules: dict[Any, Rule], name: str) -> Any:
    if "forward" in vars(module) or module._forward_hooks or module._forward_pre_hooks:
        return Any
    forward = getattr(type(module), "forward", None)
    if forward in rules:
        return rules[forward](module)
    found = _annotations(forward)[name]
    return found[0] if name == "return" and is_recurrent(module) and isinstance(found, tuple) else found


def _annotations(forward: Any) -> dict[str, Any]:
    """Of the first argument, as "input", and of the result, as "return"."""
    try:
        hints = typing.get_type_hints(forward)
        taken = [*inspect.signature(forward).parameters][1]
    except Exception:  # they may name anything, also what is there only for a type checker; or there are none
        return {"input": Any, "return": Any}
    return {name: _as_class(hints.get(key, Any)) for name, key in {"input": taken, "return": "return"}.items()}


def _as_class(hint: Any) -> Any:
    if typing.get_origin(hint) is tuple and Ellipsis not in typing.get_args(hint):
        return tuple(map(_as_class, typing.get_args(hint)))
    return hint if isinstance(hint, type) and not getattr(hint, "_is_protocol", False) else Any


def _of_layer(of: Callable[[Any], Any], i: int) -> Rule:
    return lambda layers: of(layers[i]) if len(layers) else Any


def declares_layers(cls: Class) -> Class:
    """`declares` for a row of layers, which takes what the first takes and gives what the last gives."""
    return declares(input=_of_layer(input_of, 0), output=_of_layer(output_of, -1))(cls)


def declares_input_of(part: str) -> Callable[[Class], Class]:
    """`declares` for a module that takes what one of its parts takes, the attribute of that name."""
    return declares(input=lambda module: input_of(getattr(module, part)))


declares_layers(nn.Sequential)


def fast_forward(module: Any, x: Any) -> Any:
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


def apply_in_chunks(function: Callable[[Any, Tensor], Tensor], obs: Any, items: Tensor) -> Tensor:
    """What a function gives for M items in each of N states, [M, N, ...]; off a CPU it is called once.

    Args:
        function: Called with observations, [m * N, ...], and as many items, [m * N, ...]; it gives a row for each.
        obs: Observations, nested tensors [N, ...].
        items: The items, [M, N, ...].
    """
    m, n = items.shape[:2]
    tracing = torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    one_call = items.device.type != "cpu" or tracing
    size = m if one_call else max(1, _ROWS_IN_CACHE // max(1, n))
    parts = [items[i : i + size] for i in range(0, m, size)]
    given = torch.cat([function(repeat_rows(obs, part.shape[0]), part.flatten(0, 1)) for part in parts])
    return given.view(m, n, *given.shape[1:])


def repeat_rows(nested: Any, m: int) -> Any:
    """All rows m times, one copy after the other, tensors [m * N, ...] nested as they were."""
    return map_nested(lambda leaf: leaf.unsqueeze(0).expand(m, *leaf.shape).flatten(0, 1), nested)
