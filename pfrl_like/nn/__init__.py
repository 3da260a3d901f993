"""Building blocks of networks."""

from pfrl_like.nn.action_models import ConditionalVAE, ReturnConditionedTransformer
from pfrl_like.nn.atari_cnn import LargeAtariCNN, SmallAtariCNN
from pfrl_like.nn.bound_by_tanh import ActivityPenalty, BoundByTanh
from pfrl_like.nn.branched import Branched
from pfrl_like.nn.concat_obs_and_action import ConcatObsAndAction
from pfrl_like.nn.empirical_normalization import EmpiricalNormalization
from pfrl_like.nn.lmbda import Lambda
from pfrl_like.nn.mlp import MLP
from pfrl_like.nn.mlp_bn import MLPBN
from pfrl_like.nn.noisy_chain import to_factorized_noisy
from pfrl_like.nn.noisy_linear import FactorizedNoisyLinear
from pfrl_like.nn.observation_layers import DictEncoder, ObsEncoder, Standardize, ToFloat
from pfrl_like.nn.recurrent import Recurrent
from pfrl_like.nn.recurrent_branched import RecurrentBranched
from pfrl_like.nn.recurrent_sequential import RecurrentSequential

__all__ = [
    "ActivityPenalty", "BoundByTanh", "Branched", "ConcatObsAndAction", "ConditionalVAE", "DictEncoder",
    "EmpiricalNormalization", "FactorizedNoisyLinear", "Lambda", "LargeAtariCNN", "MLP", "MLPBN", "ObsEncoder",
    "Recurrent", "RecurrentBranched", "RecurrentSequential", "ReturnConditionedTransformer", "SmallAtariCNN",
    "Standardize", "ToFloat", "to_factorized_noisy",
]  # fmt: skip
