"""The factories of optimisers at their path of d3rlpy 2.0 to 2.6."""

from pfrl_like.d3rlpy.optimizers import (
    AdamFactory,
    AdamWFactory,
    GPTAdamWFactory,
    OptimizerFactory,
    RMSpropFactory,
    SGDFactory,
)

__all__ = ["AdamFactory", "AdamWFactory", "GPTAdamWFactory", "OptimizerFactory", "RMSpropFactory", "SGDFactory"]
