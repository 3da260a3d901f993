"""The conjugate-gradient method."""

from collections.abc import Callable

import torch
from torch import Tensor


def conjugate_gradient(
    A_product_func: Callable[[Tensor], Tensor],  # noqa: N803 - PFRL's name
    b: Tensor,
    tol: float = 1e-10,
    max_iter: int = 10,
) -> Tensor:
    """Solve A x = b for a symmetric positive definite A (Hestenes and Stiefel 1952, doi:10.6028/jres.049.044, eq. 3:1).

    Args:
        A_product_func: Function that takes a vector v, [n], and returns A v.
        b: Right-hand side, [n].
        tol: The iteration stops if the norm of b - A x is at most this value.
        max_iter: Maximum number of iterations. After n iterations the solution is exact up to rounding.

    Returns:
        x, [n].
    """
    x = torch.zeros_like(b)
    residual = direction = b
    square = residual.dot(residual)
    for _ in range(max_iter):
        if square <= tol**2:
            break
        image = A_product_func(direction)
        step = square / direction.dot(image)
        x = x + step * direction
        residual = residual - step * image
        previous, square = square, residual.dot(residual)
        direction = residual + (square / previous) * direction
    return x
