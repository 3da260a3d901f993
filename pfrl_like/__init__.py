"""pfrl_like: reinforcement learning from composable parts, for one agent's whole life."""

from pfrl_like import action_value as action_value
from pfrl_like import agent as agent
from pfrl_like import agents as agents
from pfrl_like import collections as collections
from pfrl_like import env as env
from pfrl_like import envs as envs
from pfrl_like import experiments as experiments
from pfrl_like import explorer as explorer
from pfrl_like import explorers as explorers
from pfrl_like import functions as functions
from pfrl_like import initializers as initializers
from pfrl_like import nn as nn
from pfrl_like import optimizers as optimizers
from pfrl_like import q_function as q_function
from pfrl_like import q_functions as q_functions
from pfrl_like import replay_buffer as replay_buffer
from pfrl_like import replay_buffers as replay_buffers
from pfrl_like import testing as testing
from pfrl_like import utils as utils
from pfrl_like import wrappers as wrappers

__version__ = "0.1.0"
