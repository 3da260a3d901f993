"""Algorithms, their configs, explorers, and wrappers of transformers."""

from typing import Any

from pfrl_like.d3rlpy.algos.configs import DecisionTransformerConfig, DiscreteDecisionTransformerConfig
from pfrl_like.d3rlpy.algos.qlearning import (
    AWAC,
    BC,
    BCQ,
    BEAR,
    CQL,
    CRR,
    DDPG,
    DQN,
    IQL,
    NFQ,
    PLAS,
    SAC,
    TD3,
    AWACConfig,
    BCConfig,
    BCQConfig,
    BEARConfig,
    CalQL,
    CalQLConfig,
    ConstantEpsilonGreedy,
    CQLConfig,
    CRRConfig,
    DDPGConfig,
    DiscreteBC,
    DiscreteBCConfig,
    DiscreteBCQ,
    DiscreteBCQConfig,
    DiscreteCQL,
    DiscreteCQLConfig,
    DiscreteRandomPolicy,
    DiscreteRandomPolicyConfig,
    DiscreteSAC,
    DiscreteSACConfig,
    DoubleDQN,
    DoubleDQNConfig,
    DQNConfig,
    Explorer,
    IQLConfig,
    LinearDecayEpsilonGreedy,
    NFQConfig,
    NormalNoise,
    PLASConfig,
    PLASWithPerturbation,
    PLASWithPerturbationConfig,
    QLearningAlgoBase,
    RandomPolicy,
    RandomPolicyConfig,
    ReBRAC,
    ReBRACConfig,
    SACConfig,
    TD3Config,
    TD3PlusBC,
    TD3PlusBCConfig,
)  # fmt: skip
from pfrl_like.d3rlpy.algos.transformer import (
    DecisionTransformer,
    DiscreteDecisionTransformer,
    GreedyTransformerActionSampler,
    IdentityTransformerActionSampler,
    SoftmaxTransformerActionSampler,
    StatefulTransformerWrapper,
    TransformerActionSampler,
    TransformerAlgoBase,
    TransformerInput,
)

__all__ = [
    "AWAC", "AWACConfig", "BC", "BCConfig", "BCQ", "BCQConfig", "BEAR", "BEARConfig", "CQL", "CQLConfig", "CRR",
    "CRRConfig", "CalQL", "CalQLConfig", "ConstantEpsilonGreedy", "DDPG", "DDPGConfig", "DQN", "DQNConfig",
    "DecisionTransformer", "DecisionTransformerConfig", "DiscreteBC", "DiscreteBCConfig", "DiscreteBCQ",
    "DiscreteBCQConfig", "DiscreteCQL", "DiscreteCQLConfig", "DiscreteDecisionTransformer",
    "DiscreteDecisionTransformerConfig", "DiscreteRandomPolicy", "DiscreteRandomPolicyConfig", "DiscreteSAC",
    "DiscreteSACConfig", "DoubleDQN", "DoubleDQNConfig", "Explorer", "GreedyTransformerActionSampler", "IQL",
    "IQLConfig", "IdentityTransformerActionSampler", "LinearDecayEpsilonGreedy", "NFQ", "NFQConfig", "NormalNoise",
    "PLAS", "PLASConfig", "PLASWithPerturbation", "PLASWithPerturbationConfig", "QLearningAlgoBase", "RandomPolicy",
    "RandomPolicyConfig", "ReBRAC", "ReBRACConfig", "SAC", "SACConfig", "SoftmaxTransformerActionSampler",
    "StatefulTransformerWrapper", "TD3", "TD3Config", "TD3PlusBC", "TD3PlusBCConfig", "TransformerActionSampler",
    "TransformerAlgoBase", "TransformerInput",
]  # fmt: skip

#: Algorithms of d3rlpy 2 that do not exist here, and what to use.
_OTHERS = {"PRDC": "TD3PlusBC or ReBRAC", "TACR": "TD3PlusBC or DecisionTransformer"}


def __getattr__(name: str) -> Any:
    """Raise an error. If d3rlpy has this algorithm, the error names others."""
    from pfrl_like.utils.old_names import missing_name  # not a name of this module

    other = _OTHERS.get(name.removesuffix("Config"))
    raise missing_name(__name__, name, f": use {other}" if other else "")
