"""Sources of randomness, and distinct random integers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Source of random numbers; None stands for the global NumPy stream, looked up at call time.
RandomSource = np.random.Generator | np.random.RandomState | None
_GENERATORS = (np.random.Generator, np.random.RandomState)


def check_rng(rng: Any) -> None:
    """Refuse an argument `rng` that draws no random numbers, such as a seed.

    Raises:
        TypeError: If it is neither a generator of NumPy nor None.
    """
    if rng is not None and not isinstance(rng, _GENERATORS):
        raise TypeError(
            f"rng is {rng!r:.80} ({type(rng).__name__}), expected a generator of NumPy, such as "
            "np.random.default_rng(0), or None for the global stream"
        )


def sample_n_k(n: int, k: int, rng: RandomSource = None) -> NDArray[np.int64]:
    """Draw k distinct integers of range(n), every ordered k-tuple being equally likely.

    Args:
        n: Size of the population.
        k: Number of integers to draw.
        rng: Source of randomness; None is the global NumPy stream.

    Returns:
        The integers in the order of the draw, shape [k], int64.

    Raises:
        ValueError: If k is negative or larger than n.
    """
    if not 0 <= k <= n:
        raise ValueError(f"cannot draw k={k} distinct items from n={n}: expected 0 <= k <= n")
    source: Any = np.random if rng is None else rng
    if 3 * k >= n:
        permuted: NDArray[np.int64] = source.permutation(n)[:k].astype(np.int64)
        return permuted
    # Scaled floats cost a third of `randint`; their bias is below n * 2**-53, and u * n never rounds up to n.
    drawn: NDArray[np.int64] = (source.random(k) * n).astype(np.int64)
    distinct = dict.fromkeys(drawn.tolist())
    if len(distinct) == k:
        return drawn
    while len(distinct) < k:  # repeated draws do not count
        distinct |= dict.fromkeys((source.random(k) * n).astype(np.int64).tolist())
    return np.fromiter(distinct, np.int64)[:k]


def not_held(name: str, n: int, held: int, what: str, least: int = 0) -> ValueError:
    """Error for drawing more items than there are, or fewer than allowed.

    Args:
        name: The argument that holds the number to draw.
        n: Number to draw.
        held: Number of items.
        what: Name of the items.
        least: Smallest number that may be drawn.
    """
    expected = f"expected {least} to {held}, the {what} held" if held else f"but it is empty: no {what} are held"
    return ValueError(f"{name}: got {n}, {expected}")
