"""Factories of encoders and Q-functions, and the networks that they build. Parameters have d3rlpy 2's names."""

from pfrl_like.d3rlpy.models import encoders, optimizers, policies, q_functions
from pfrl_like.d3rlpy.models.encoders import (
    DefaultEncoderFactory,
    EncoderFactory,
    PixelEncoderFactory,
    SimBaEncoderFactory,
    VectorEncoderFactory,
    register_encoder_factory,
)
from pfrl_like.d3rlpy.models.optimizers import (
    AdamFactory,
    AdamWFactory,
    GPTAdamWFactory,
    OptimizerFactory,
    RMSpropFactory,
    SGDFactory,
)
from pfrl_like.d3rlpy.models.q_functions import (
    IQNQFunctionFactory,
    MeanQFunctionFactory,
    QFunctionFactory,
    QRQFunctionFactory,
)

__all__ = [
    "AdamFactory", "AdamWFactory", "DefaultEncoderFactory", "EncoderFactory", "GPTAdamWFactory", "IQNQFunctionFactory",
    "MeanQFunctionFactory", "OptimizerFactory", "PixelEncoderFactory", "QFunctionFactory", "QRQFunctionFactory",
    "RMSpropFactory", "SGDFactory", "SimBaEncoderFactory", "VectorEncoderFactory", "encoders", "optimizers",
    "policies", "q_functions", "register_encoder_factory",
]  # fmt: skip
