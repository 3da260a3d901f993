"""A small quadratic programme: the mixture of least expected square."""

import numpy as np
from numpy.typing import NDArray

from pfrl_like.ope.episodes import Array


def least_square_on_simplex(matrix: Array) -> Array:
    """X >= 0 that sums to 1 and makes x' A x least, [J], for A positive semi-definite, [J, J].

    Scaled to A z = 1 wherever z > 0 it is a problem of non-negative least squares, solved by exchanging active numbers
    (Lawson and Hanson 1974, "Solving least squares problems", chapter 23).
    """
    size = len(matrix)
    scale = np.trace(matrix) / size
    if not scale > 0:
        return np.full(size, 1 / size)
    a = matrix / scale + 1e-10 * np.eye(size)
    z, active = np.zeros(size), np.zeros(size, np.bool_)
    for _ in range(10 * size):
        slope = np.where(active, -np.inf, 1.0 - a @ z)
        best = int(slope.argmax())
        if slope[best] <= 1e-9:
            break
        active[best] = True
        while (wanted := _solved(a, active)).min() <= 0 < active.sum():
            _move(z, wanted, active)
        z[:] = 0.0
        z[active] = wanted
    return np.asarray(z / z.sum())


def _solved(a: Array, active: NDArray[np.bool_]) -> Array:
    return np.asarray(np.linalg.solve(a[np.ix_(active, active)], np.ones(int(active.sum()))), np.float64)


def _move(z: Array, wanted: Array, active: NDArray[np.bool_]) -> None:
    """Go towards the wanted numbers until the first one is 0, which becomes inactive."""
    at = np.flatnonzero(active)
    falling = wanted <= 0
    reach = z[at] / np.where(falling, z[at] - wanted, 1.0)
    share = reach[falling].min()
    z[at] += share * (wanted - z[at])
    left = at[falling & (reach <= share)]
    z[left], active[left] = 0.0, False
