"""PFRL's functions of TRPO: flat vectors of parameters, and recurrent states of two networks."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

_Episodes = Sequence[Sequence[dict[str, Any]]]


def _flatten_and_concat_variables(vs: Sequence[Tensor]) -> Tensor:
    """Return the elements of tensors as one vector, [n]."""
    return torch.cat([tensor.flatten() for tensor in vs])


def _as_ndarray(x: Any) -> Any:
    """Return a tensor as an array; return anything else unchanged."""
    return x.numpy(force=True) if isinstance(x, Tensor) else x


def _split_and_reshape_to_ndarrays(
    flat_v: Tensor, sizes: Sequence[int], shapes: Sequence[tuple[int, ...]]
) -> list[Tensor]:
    """Split a vector, [n], into tensors of the given sizes and shapes."""
    return [part.reshape(shape) for part, shape in zip(torch.split(flat_v, [*sizes]), shapes, strict=True)]


def _replace_params_data(params: Sequence[Tensor], new_params_data: Sequence[Tensor]) -> None:
    """Copy values into parameters of the same shapes.

    Raises:
        ValueError: If a shape differs.
    """
    for param, value in zip(params, new_params_data, strict=True):
        if param.shape != value.shape:
            shapes = tuple(value.shape), tuple(param.shape)
            raise ValueError(f"new_params_data has the shape {shapes[0]}, expected {shapes[1]} as the parameter")
        param.data.copy_(value)


def _hessian_vector_product(flat_grads: Tensor, params: Sequence[Tensor], vec: Tensor) -> Tensor:
    """Return the product of the second derivative of a loss and a vector, [n].

    Args:
        flat_grads: First derivative of the loss as one vector, [n], with its graph.
        params: The parameters.
        vec: Vector, [n]. No gradient flows into it.

    Raises:
        RuntimeError: If the first derivative does not depend on a parameter.
    """
    return _flatten_and_concat_variables(torch.autograd.grad(flat_grads.dot(vec.detach()), params, retain_graph=True))


def _collect_first_recurrent_states_of_policy(episodes: _Episodes) -> list[Any]:
    """Return the policy's recurrent state at the start of each episode, None if it is None."""
    return _first_states(episodes, 0)


def _collect_first_recurrent_states_of_vf(episodes: _Episodes) -> list[Any]:
    """Return the value function's recurrent state at the start of each episode, None if it is None."""
    return _first_states(episodes, 1)


def _first_states(episodes: _Episodes, i: int) -> list[Any]:
    states = [episode[0]["recurrent_state"] for episode in episodes]
    return [None if state is None else state[i] for state in states]
