"""Algorithms, their configs, explorers, and wrappers of transformers."""

from pfrl_like.d3rlpy.algos.configs import (
    AWACConfig,
    BCConfig,
    BCQConfig,
    BEARConfig,
    CalQLConfig,
    CQLConfig,
    CRRConfig,
    DDPGConfig,
    DecisionTransformerConfig,
    DiscreteBCConfig,
    DiscreteBCQConfig,
    DiscreteCQLConfig,
    DiscreteDecisionTransformerConfig,
    DiscreteRandomPolicyConfig,
    DiscreteSACConfig,
    DoubleDQNConfig,
    DQNConfig,
    IQLConfig,
    NFQConfig,
    PLASConfig,
    PLASWithPerturbationConfig,
    RandomPolicyConfig,
    ReBRACConfig,
    SACConfig,
    TD3Config,
    TD3PlusBCConfig,
)
from pfrl_like.d3rlpy.algos.explorers import ConstantEpsilonGreedy, Explorer, LinearDecayEpsilonGreedy, NormalNoise
from pfrl_like.d3rlpy.algos.qlearning import DQN, NFQ, DoubleDQN, QLearningAlgoBase
from pfrl_like.d3rlpy.algos.stateful_transformer import (
    GreedyTransformerActionSampler,
    IdentityTransformerActionSampler,
    SoftmaxTransformerActionSampler,
    StatefulTransformerWrapper,
    TransformerActionSampler,
    TransformerInput,
)

__all__ = [
    "DQN", "DoubleDQN", "NFQ", "QLearningAlgoBase",
    "AWACConfig", "BCConfig", "BCQConfig", "BEARConfig", "CQLConfig", "CRRConfig", "CalQLConfig",
    "ConstantEpsilonGreedy", "DDPGConfig", "DQNConfig", "DecisionTransformerConfig", "DiscreteBCConfig",
    "DiscreteBCQConfig", "DiscreteCQLConfig", "DiscreteDecisionTransformerConfig", "DiscreteRandomPolicyConfig",
    "DiscreteSACConfig", "DoubleDQNConfig", "Explorer", "GreedyTransformerActionSampler", "IQLConfig",
    "IdentityTransformerActionSampler", "LinearDecayEpsilonGreedy", "NFQConfig", "NormalNoise", "PLASConfig",
    "PLASWithPerturbationConfig", "RandomPolicyConfig", "ReBRACConfig", "SACConfig", "SoftmaxTransformerActionSampler",
    "StatefulTransformerWrapper", "TD3Config", "TD3PlusBCConfig", "TransformerActionSampler", "TransformerInput",
]  # fmt: skip
