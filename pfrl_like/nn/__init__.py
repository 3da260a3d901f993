"""Modules that networks are composed of."""

from pfrl_like.nn.branched import Branched as Branched
from pfrl_like.nn.lmbda import Lambda as Lambda
from pfrl_like.nn.mlp import MLP as MLP
from pfrl_like.nn.recurrent import Recurrent as Recurrent
from pfrl_like.nn.recurrent_branched import RecurrentBranched as RecurrentBranched
from pfrl_like.nn.recurrent_sequential import RecurrentSequential as RecurrentSequential
