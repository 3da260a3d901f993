"""The returns that the atoms of a distributional Q-function stand for."""

import numpy as np
import torch
from torch import Tensor


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
