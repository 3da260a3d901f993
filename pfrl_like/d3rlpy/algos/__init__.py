"""Algorithms, explorers, and wrappers of transformers."""

from pfrl_like.d3rlpy.algos.explorers import ConstantEpsilonGreedy, Explorer, LinearDecayEpsilonGreedy, NormalNoise
from pfrl_like.d3rlpy.algos.stateful_transformer import (
    GreedyTransformerActionSampler,
    IdentityTransformerActionSampler,
    SoftmaxTransformerActionSampler,
    StatefulTransformerWrapper,
    TransformerActionSampler,
    TransformerInput,
)

__all__ = [
    "ConstantEpsilonGreedy", "Explorer", "GreedyTransformerActionSampler", "IdentityTransformerActionSampler",
    "LinearDecayEpsilonGreedy", "NormalNoise", "SoftmaxTransformerActionSampler", "StatefulTransformerWrapper",
    "TransformerActionSampler", "TransformerInput",
]  # fmt: skip
