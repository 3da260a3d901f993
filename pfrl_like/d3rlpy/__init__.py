"""The names of d3rlpy 2 on this library: `import pfrl_like.d3rlpy as d3rlpy`."""

from pfrl_like.d3rlpy import (
    algos,
    base,
    constants,
    dataset,
    datasets,
    distributed,
    envs,
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
from pfrl_like.d3rlpy.base import load_learnable
from pfrl_like.d3rlpy.constants import ActionSpace, LoggingStrategy, PositionEncodingType
from pfrl_like.d3rlpy.torch_utility import Modules, TorchMiniBatch, seed

__all__ = [
    "ActionSpace", "LoggingStrategy", "Modules", "PositionEncodingType", "TorchMiniBatch", "__version__", "algos",
    "base", "constants", "dataset", "datasets", "distributed", "envs", "interface", "load_learnable", "logging",
    "metrics", "models", "notebook_utils", "ope", "optimizers", "preprocessing", "seed", "types",
]  # fmt: skip

#: Release of d3rlpy whose interface this is. Files carry it.
__version__ = "2.8.1"
