"""Factories of optimisers and of learning-rate schedulers."""

from pfrl_like.d3rlpy.optimizers.optimizers import (
    AdamFactory,
    AdamWFactory,
    CosineAnnealingLRFactory,
    GPTAdamWFactory,
    LRSchedulerFactory,
    OptimizerFactory,
    OptimizerWrapper,
    RMSpropFactory,
    SGDFactory,
    WarmupSchedulerFactory,
)

__all__ = [
    "AdamFactory", "AdamWFactory", "CosineAnnealingLRFactory", "GPTAdamWFactory", "LRSchedulerFactory",
    "OptimizerFactory", "OptimizerWrapper", "RMSpropFactory", "SGDFactory", "WarmupSchedulerFactory",
]  # fmt: skip
