"""The table of names that compositions may contain. No other name is ever imported."""

import functools
import importlib
from typing import Any, NamedTuple

#: Names of which agents are composed. A stored composition may contain these.
_OF_AGENTS = {
    "torch.nn": """BatchNorm1d Conv2d Embedding Flatten GELU GRU Identity LayerNorm Linear ModuleList ReLU Sequential
        SiLU Softmax Tanh Unflatten""",
    "torch": "linspace optim.Adam",
    "pfrl_like.nn": """Branched ConcatObsAndAction ConditionalVAE DictEncoder EmpiricalNormalization
        FactorizedNoisyLinear ObsEncoder RecurrentBranched RecurrentSequential ReturnConditionedTransformer Standardize
        ToFloat""",
    "pfrl_like.initializers": "init_orthogonal",
    "pfrl_like.agents": """A2C A3C ACER AL APPO AWAC AWR BC BCQ BEAR COMBO CQL CRR CalQL CategoricalDQN
        CategoricalDoubleDQN CrossQ DDPG DPP DQN DecisionTransformer DiscreteAWR DiscreteBC DiscreteBCQ DiscreteCQL
        DiscreteDecisionTransformer DiscreteSAC DoubleDQN DoubleIQN DoublePAL EDAC FQF IMPALA IQL IQN MunchausenDQN PAL
        PPO QRDQN REDQ REINFORCE ReBRAC SoftActorCritic TD3 TD3PlusBC TQC TRPO acer.ACERDiscreteActionHead
        acer.ACERContinuousActionHead""",
    "pfrl_like.explorers": "AdditiveGaussian Greedy LinearDecayEpsilonGreedy",
    "pfrl_like.policies": """DeterministicHead GaussianHeadWithStateIndependentCovariance MultiCategoricalHead
        SoftmaxCategoricalHead SquashedGaussianHead variance_of_log_scale""",
    "pfrl_like.q_functions": """CosineBasisLinear DiscreteActionValueHead
        DistributionalSingleModelStateQFunctionWithDiscreteAction DuelingStreams FullyParametrizedQFunction
        ImplicitQuantileQFunction QuantileSingleModelStateQFunctionWithDiscreteAction RecurrentImplicitQuantileQFunction
        fqf_parameter_groups""",
    "pfrl_like.replay_buffers": """EpisodicReplayBuffer PrioritizedEpisodicReplayBuffer PrioritizedReplayBuffer
        ReplayBuffer""",
}  # fmt: skip
#: Names that only scripts contain: environments, runners, files.
_OF_SCRIPTS = {
    "torch": "set_num_threads",
    "pfrl_like.datasets": "get_cartpole get_pendulum",
    "pfrl_like.envs": "SerialVectorEnv make_env",
    "pfrl_like.experiments": """ScheduleHook train_agent_async train_agent_batch_with_evaluation train_agent_offline
        train_agent_with_evaluation""",
    "pfrl_like.utils": "set_random_seed",
    "pfrl_like.wrappers": "CastObservationToFloat32 NormalizeActionSpace ScaleReward SelectFeatures",
    "pfrl_like.wrappers.atari_wrappers": "ClipRewardEnv EpisodicLifeEnv FrameStack WarpFrame make_atari",
}  # fmt: skip


class Import(NamedTuple):
    """Import of a name in a script, and its text.

    Attributes:
        module: Module that is imported, for example "torch".
        imported: Name that is imported from the module. None if the module itself is imported.
        text: The name in expressions.
    """

    module: str
    imported: str | None
    text: str


def _import(module: str, name: str) -> Import:
    if module == "pfrl_like.nn":  # "nn" is torch.nn
        return Import(module, name, name)
    package, _, last = module.rpartition(".")
    return Import(package, last, f"{last}.{name}") if package else Import(module, None, f"{module}.{name}")


def _path(module: str, name: str) -> str:
    """Return the path of a name in `parts`: without "pfrl_like" or "torch", except for `pfrl_like.nn`."""
    return f"{'pfrl_like.nn' if module == 'pfrl_like.nn' else module.rpartition('.')[2]}.{name}"


_TABLE = {
    _path(module, name): (module, name)
    for table in (_OF_AGENTS, _OF_SCRIPTS)
    for module, names in table.items()
    for name in names.split()
}
_STORABLE = {_path(module, name) for module, names in _OF_AGENTS.items() for name in names.split()}


def import_of(path: str) -> Import:
    """Return how a script imports and writes a name of the table.

    Raises:
        ValueError: If the name is not in the table.
    """
    return _import(*_entry(path))


def is_known(path: str) -> bool:
    """True if the table has this name."""
    return path in _TABLE


def is_storable(path: str) -> bool:
    """True if a stored composition may contain this name."""
    return path in _STORABLE


def resolve(path: str) -> Any:
    """Import and return a name of the table.

    Raises:
        ValueError: If the name is not in the table.
    """
    module, name = _entry(path)
    return functools.reduce(getattr, name.split("."), importlib.import_module(module))


def _entry(path: str) -> tuple[str, str]:
    if path not in _TABLE:
        raise ValueError(f"{path!r} is not a name that a composition can contain")
    return _TABLE[path]
