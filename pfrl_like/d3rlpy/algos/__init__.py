"""Algorithms and their configs."""

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

__all__ = [
    "AWACConfig", "BCConfig", "BCQConfig", "BEARConfig", "CQLConfig", "CRRConfig", "CalQLConfig", "DDPGConfig",
    "DQNConfig", "DecisionTransformerConfig", "DiscreteBCConfig", "DiscreteBCQConfig", "DiscreteCQLConfig",
    "DiscreteDecisionTransformerConfig", "DiscreteRandomPolicyConfig", "DiscreteSACConfig", "DoubleDQNConfig",
    "IQLConfig", "NFQConfig", "PLASConfig", "PLASWithPerturbationConfig", "RandomPolicyConfig", "ReBRACConfig",
    "SACConfig", "TD3Config", "TD3PlusBCConfig",
]  # fmt: skip
