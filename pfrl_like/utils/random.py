"""Sources of random numbers, and sampling of distinct integers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Source of random numbers. None means NumPy's global generator, looked up in each call.
RandomSource = np.random.Generator | np.random.RandomState | None


def check_rng(rng: Any) -> None:
    """Check that `rng` is a source of random numbers, and not, for example, a seed.

    Raises:
        TypeError: If `rng` is neither a NumPy generator nor None.
    """
    if rng is not None and not isinstance(rng, np.random.Generator | np.random.RandomState):
        expected = "a NumPy generator, such as np.random.default_rng(0), or None for the global stream"
        raise TypeError(f"rng is {rng!r:.80} ({type(rng).__name__}), expected {expected}")


def sample_n_k(n: int, k: int, rng: RandomSource = None) -> NDArray[np.int64]:
    """Sample k distinct integers from range(n). All ordered k-tuples are equally likely.

    Args:
        n: Size of the population.
        k: Number of integers to sample.
        rng: Source of random numbers. If None, NumPy's global generator is used.

    Returns:
        The integers in the order of sampling, shape [k], int64.

    Raises:
        ValueError: If k is negative or larger than n.
    """
    if not 0 <= k <= n:
        raise ValueError(f"k is {k} and n is {n}, expected 0 <= k <= n to sample k distinct integers")
    source: Any = np.random if rng is None else rng
    if 3 * k >= n:
        permuted: NDArray[np.int64] = source.permutation(n)[:k].astype(np.int64)
        return permuted
    # Scaled floats u * n take a third of the time of `randint`. The bias is below n * 2**-53, and u * n never rounds up
    # to n.
    sampled: NDArray[np.int64] = (source.random(k) * n).astype(np.int64)
    distinct = dict.fromkeys(sampled.tolist())
    if len(distinct) == k:
        return sampled
    while len(distinct) < k:  # ignore repeated numbers
        distinct |= dict.fromkeys((source.random(k) * n).astype(np.int64).tolist())
    return np.fromiter(distinct, np.int64)[:k]


def size_of_sample(num_experiences: int | None, n: int | None) -> int:
    """Return the argument that is passed, of the two names that the number of items to sample has.

    Raises:
        TypeError: If neither is passed, or both.
    """
    given = [value for value in (num_experiences, n) if value is not None]
    if len(given) != 1:
        raise TypeError(f"{len(given)} of the arguments num_experiences and n are passed, expected one of them")
    return given[0]


def check_held(name: str, n: int, held: int, what: str, least: int = 0) -> None:
    """Check that a sample size is from `least` to the number of stored items.

    Args:
        name: Name of the argument with the number of items to sample.
        n: Number of items to sample.
        held: Number of stored items.
        what: Name of the items.
        least: Minimum number of items to sample.

    Raises:
        ValueError: If `n` is less than `least` or more than `held`.
    """
    if not least <= n <= held:
        expected = f"expected {least} to {held}, the number of stored {what}" if held else f"but no {what} are stored"
        raise ValueError(f"{name}: got {n}, {expected}")
