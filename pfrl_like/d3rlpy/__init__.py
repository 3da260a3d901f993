"""The names of d3rlpy 2 on this library: `import pfrl_like.d3rlpy as d3rlpy`."""

import torch

from pfrl_like.d3rlpy import (
    algos,
    base,
    constants,
    dataset,
    distributed,
    interface,
    logging,
    metrics,
    models,
    notebook_utils,
    ope,
    optimizers,
    preprocessing,
    types,
)
from pfrl_like.d3rlpy.constants import ActionSpace, LoggingStrategy, PositionEncodingType
from pfrl_like.d3rlpy.torch_utility import Modules, TorchMiniBatch
from pfrl_like.utils.random_seed import set_random_seed

__all__ = [
    "ActionSpace", "LoggingStrategy", "Modules", "PositionEncodingType", "TorchMiniBatch", "__version__", "algos",
    "base", "constants", "dataset", "distributed", "interface", "logging", "metrics", "models", "notebook_utils", "ope",
    "optimizers", "preprocessing", "seed", "types",
]  # fmt: skip

#: Release of d3rlpy whose interface this is. Files carry it.
__version__ = "2.8.1"


def seed(n: int) -> None:
    """Seed the global random generators of `random`, NumPy and torch, and use deterministic algorithms of cuDNN.

    Args:
        n: An integer in [0, 2**32).

    Raises:
        TypeError: If `n` is not an integer.
        ValueError: If `n` is out of range.
    """
    set_random_seed(n)
    torch.backends.cudnn.deterministic = True
