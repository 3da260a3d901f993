"""Factories of optimisers and of learning-rate schedulers."""

from pfrl_like.d3rlpy.optimizers.lr_schedulers import (
    CosineAnnealingLRFactory,
    LRSchedulerFactory,
    WarmupSchedulerFactory,
)
from pfrl_like.d3rlpy.optimizers.optimizers import (
    AdamFactory,
    AdamWFactory,
    GPTAdamWFactory,
    OptimizerFactory,
    OptimizerWrapper,
    RMSpropFactory,
    SGDFactory,
)

__all__ = [
    "AdamFactory", "AdamWFactory", "CosineAnnealingLRFactory", "GPTAdamWFactory", "LRSchedulerFactory",
    "OptimizerFactory", "OptimizerWrapper", "RMSpropFactory", "SGDFactory", "WarmupSchedulerFactory",
]  # fmt: skip
