"""`set_random_seed`, also named `seed`: seeds all global random generators."""

import operator
import random
from typing import Any

import numpy as np
import torch


def set_random_seed(seed: Any) -> None:
    """Seed the global random generators of `random`, NumPy and torch (on all devices).

    Environments and their action spaces have their own random generators. For a reproducible run, also call
    `env.reset(seed=0); env.action_space.seed(0)` before training.

    Args:
        seed: An integer of Python or NumPy, in [0, 2**32).

    Raises:
        TypeError: If `seed` is not an integer.
        ValueError: If `seed` is out of range.
    """
    try:
        number = operator.index(seed)
    except TypeError:
        raise TypeError(f"seed is {seed!r} ({type(seed).__name__}), expected an integer") from None
    if not 0 <= number < 2**32:
        raise ValueError(f"seed is {number}, expected an integer in [0, 2**32)")
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


#: Another name of `set_random_seed`, as in d3rlpy; `pfrl_like.seed` is this function.
seed = set_random_seed
