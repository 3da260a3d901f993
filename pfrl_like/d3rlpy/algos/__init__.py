"""Algorithms, their configs, explorers, and wrappers of transformers."""

from typing import Any

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
from pfrl_like.d3rlpy.algos.qlearning.actor_critics import AWAC, CRR, DDPG, IQL, TD3, ReBRAC, TD3PlusBC
from pfrl_like.d3rlpy.algos.qlearning.base import QLearningAlgoBase
from pfrl_like.d3rlpy.algos.qlearning.imitation import BC, DiscreteBC
from pfrl_like.d3rlpy.algos.qlearning.imitator_critics import BCQ, BEAR, PLAS, PLASWithPerturbation
from pfrl_like.d3rlpy.algos.qlearning.max_entropy import CQL, SAC, CalQL, DiscreteSAC
from pfrl_like.d3rlpy.algos.qlearning.random_policies import DiscreteRandomPolicy, RandomPolicy
from pfrl_like.d3rlpy.algos.qlearning.value_based import DQN, NFQ, DiscreteBCQ, DiscreteCQL, DoubleDQN
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
