"""Modules that networks are composed of."""

from pfrl_like.nn.activity_penalty import ActivityPenalty as ActivityPenalty
from pfrl_like.nn.atari_cnn import LargeAtariCNN as LargeAtariCNN
from pfrl_like.nn.atari_cnn import SmallAtariCNN as SmallAtariCNN
from pfrl_like.nn.bound_by_tanh import BoundByTanh as BoundByTanh
from pfrl_like.nn.branched import Branched as Branched
from pfrl_like.nn.concat_obs_and_action import ConcatObsAndAction as ConcatObsAndAction
from pfrl_like.nn.conditional_vae import ConditionalVAE as ConditionalVAE
from pfrl_like.nn.empirical_normalization import EmpiricalNormalization as EmpiricalNormalization
from pfrl_like.nn.lmbda import Lambda as Lambda
from pfrl_like.nn.mlp import MLP as MLP
from pfrl_like.nn.mlp_bn import MLPBN as MLPBN
from pfrl_like.nn.noisy_chain import to_factorized_noisy as to_factorized_noisy
from pfrl_like.nn.noisy_linear import FactorizedNoisyLinear as FactorizedNoisyLinear
from pfrl_like.nn.recurrent import Recurrent as Recurrent
from pfrl_like.nn.recurrent_branched import RecurrentBranched as RecurrentBranched
from pfrl_like.nn.recurrent_sequential import RecurrentSequential as RecurrentSequential
