"""What Q-functions share: observation and action as one input, sizes of hidden layers, atoms."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.utils.checks import check_counts


def hidden_sizes_of(n_hidden_channels: int, n_hidden_layers: int) -> list[int]:
    """The sizes of the hidden layers.

    Raises:
        TypeError: If one of the numbers is no integer.
        ValueError: If the size is below 1, or the number below 0.
    """
    check_counts(n_hidden_channels=n_hidden_channels)
    check_counts(least=0, n_hidden_layers=n_hidden_layers)
    return [n_hidden_channels] * n_hidden_layers


def check_atoms(z_values: Tensor) -> None:
    """Refuse returns that are not rising and evenly spaced, [n_atoms], onto which nothing can be projected.

    Raises:
        ValueError: If they are not.
    """
    if z_values.ndim != 1 or len(z_values) < 2:
        raise ValueError(f"z_values has shape {tuple(z_values.shape)}, expected [n_atoms] with at least 2 atoms")
    even = torch.linspace(float(z_values[0]), float(z_values[-1]), len(z_values), dtype=z_values.dtype)
    width = float(z_values[-1] - z_values[0])
    if not width > 0 or not torch.allclose(z_values.cpu(), even, rtol=0.0, atol=1e-3 * width / (len(z_values) - 1)):
        raise ValueError(f"z_values is {z_values.tolist()!r:.80}, expected numbers that rise by the same step")


def evenly_spaced_atoms(n_atoms: int, v_min: float, v_max: float) -> Tensor:
    """`n_atoms` returns from `v_min` to `v_max`, [n_atoms], float32 (arXiv:1707.06887, section 4.1).

    Raises:
        ValueError: If there are fewer than two atoms or `v_min` is not below `v_max`.
    """
    if n_atoms < 2:
        raise ValueError(f"n_atoms is {n_atoms!r}, expected at least 2")
    if not v_min < v_max:
        raise ValueError(f"v_min is {v_min!r} and v_max is {v_max!r}, expected v_min < v_max")
    return torch.from_numpy(np.linspace(v_min, v_max, n_atoms, dtype=np.float32))


def pair(x: Any, a: Any = None) -> tuple[Any, Any]:
    """The observations and the actions.

    Raises:
        TypeError: If there are no actions.
    """
    if a is not None:
        return x, a
    if isinstance(x, tuple) and len(x) == 2:
        return x
    raise TypeError(f"expected an observation and an action, or a pair of both, got one {type(x).__name__}")


def side_by_side(x: Any, a: Any = None) -> Tensor:
    """The same as one row each, [B, n].

    Raises:
        TypeError: If there are no actions.
    """
    return torch.cat(pair(x, a), dim=-1)
