"""Linear systems of which only products with vectors are known."""

from collections.abc import Callable

import torch
from torch import Tensor


def conjugate_gradient(
    product: Callable[[Tensor], Tensor], b: Tensor, max_iter: int = 10, tolerance: float = 1e-10
) -> Tensor:
    """Solve A x = b for a symmetric positive definite A (Hestenes and Stiefel 1952, doi:10.6028/jres.049.044, eq. 3:1).

    Args:
        product: Gives A v for a vector v, [n].
        b: [n].
        max_iter: Most iterations; after n of them the solution is exact but for rounding.
        tolerance: Squared norm of b - A x that is small enough to stop.

    Returns:
        x, [n].
    """
    x = torch.zeros_like(b)
    residual = direction = b
    square = residual.dot(residual)
    for _ in range(max_iter):
        if square <= tolerance:
            break
        image = product(direction)
        step = square / direction.dot(image)
        x = x + step * direction
        residual = residual - step * image
        previous, square = square, residual.dot(residual)
        direction = residual + (square / previous) * direction
    return x
