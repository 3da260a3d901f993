"""`fast_forward` calls layers without `nn.Module.__call__`. `apply_in_chunks` calls a function with chunks of rows."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules import module as hooks

from pfrl_like.batch import map_nested

#: For each class of layers, the function that `fast_forward` calls in place of the layer. None if `fast_forward` has
#: separate code for the class.
FUNCTIONS: dict[type[nn.Module], Callable[[Any], Any] | None] = {
    nn.Tanh: torch.tanh, nn.Sigmoid: torch.sigmoid, nn.Sequential: None, nn.Linear: None, nn.ReLU: None,
}  # fmt: skip
#: Maximum number of rows in a call on a CPU. With more rows the outputs do not fit into the CPU caches, and calls take
#: a third more time.
_ROWS_IN_CACHE = 512


def fast_forward(module: Any, x: Any) -> Any:
    """Return `module(x)`. For standard layers without hooks, call the equivalent function in place of the module.

    Each call inspects the layers again, so hooks, parameters and layers may change between calls. A ReLU after a linear
    layer works in place on the output of the linear layer, because nothing else uses this output.
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
    new_output = None
    while layers:
        layer, previous_output = layers.pop(), new_output
        kind, new_output = type(layer), None
        if kind not in FUNCTIONS:
            x = layer(x)
            continue
        attributes = layer.__dict__
        if (
            attributes["_forward_hooks"]
            or attributes["_forward_pre_hooks"]
            or attributes["_backward_hooks"]
            or attributes["_backward_pre_hooks"]
            or "forward" in attributes
            or attributes.get("_compiled_call_impl")
        ):
            x = layer(x)
        elif kind is nn.Sequential:
            layers.extend(reversed(attributes["_modules"].values()))
        elif kind is nn.Linear:
            params = attributes["_parameters"]
            has_params = "weight" in params and "bias" in params  # False if a parameter was replaced by a tensor
            x = F.linear(x, params["weight"], params["bias"]) if has_params else layer(x)
            new_output = x if has_params and x.ndim == 2 else None  # with more axes `x` is a view
        elif kind is nn.ReLU:
            x = torch.relu_(x) if layer.inplace or x is previous_output else torch.relu(x)
        else:
            x = FUNCTIONS[kind](x)  # type: ignore[misc]
    return x


def apply_in_chunks(
    function: Callable[[Any, Tensor], Tensor], obs: Any, items: Tensor, one_call: bool = False
) -> Tensor:
    """Apply a function to M items (for example actions) in each of N states. Use chunks on a CPU, otherwise one call.

    Args:
        function: Function of observations, [m * N, ...], and items, [m * N, ...], that returns one row for each item.
        obs: Observations, nested tensors [N, ...].
        items: Items, [M, N, ...].
        one_call: True for one call on a CPU, too, because the function normalises by the statistics of all rows.
    """
    m, n = items.shape[:2]
    tracing = torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    one_call = one_call or items.device.type != "cpu" or tracing
    size = m if one_call else max(1, _ROWS_IN_CACHE // max(1, n))
    parts = [items[i : i + size] for i in range(0, m, size)]
    rows = torch.cat([function(repeat_rows(obs, part.shape[0]), part.flatten(0, 1)) for part in parts])
    return rows.view(m, n, *rows.shape[1:])


def repeat_rows(nested: Any, m: int) -> Any:
    """Return nested tensors [m * N, ...] that contain m concatenated copies of all rows."""
    return map_nested(lambda leaf: leaf.unsqueeze(0).expand(m, *leaf.shape).flatten(0, 1), nested)
