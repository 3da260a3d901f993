"""Small A3C and ACER agents for tests; observations are one-hot, [5], as those of a `Chain`."""

import functools
from typing import Any

import torch
from torch import nn

from pfrl_like.agents import A3C, ACER
from pfrl_like.agents.acer import ACERContinuousActionHead, ACERDiscreteActionHead
from pfrl_like.nn import Branched, ConcatObsAndAction, RecurrentSequential
from pfrl_like.policies import GaussianHeadWithDiagonalCovariance, SoftmaxCategoricalHead
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import EpisodicReplayBuffer

OBS = 5


def features(recurrent: bool, head: nn.Module) -> nn.Module:
    """A network that ends in a head which takes eight features."""
    if recurrent:
        return RecurrentSequential(nn.Linear(OBS, 8), nn.GRU(8, 8), head)
    return nn.Sequential(nn.Linear(OBS, 8), nn.Tanh(), head)


def a3c_model(recurrent: bool = False) -> nn.Module:
    """A small policy with values."""
    return features(recurrent, Branched(nn.Sequential(nn.Linear(8, 2), SoftmaxCategoricalHead()), nn.Linear(8, 1)))


def make_a3c(recurrent: bool = False, optimizer: Any = torch.optim.SGD, lr: float = 0.1, **options: Any) -> A3C:
    """The same parameters every time."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = a3c_model(recurrent)
    arguments = {"t_max": 4, "gamma": 0.9, **options}
    return A3C(model, optimizer(model.parameters(), lr=lr), recurrent=recurrent, **arguments)


def acer_model(recurrent: bool = False, continuous: bool = False) -> nn.Module:
    """A small policy with action values."""
    if continuous:
        policy = nn.Sequential(nn.Linear(8, 4), GaussianHeadWithDiagonalCovariance())
        advantage = nn.Sequential(ConcatObsAndAction(), nn.Linear(10, 1))
        return features(recurrent, ACERContinuousActionHead(policy, nn.Linear(8, 1), advantage))
    policy = nn.Sequential(nn.Linear(8, 2), SoftmaxCategoricalHead())
    head = ACERDiscreteActionHead(policy, nn.Sequential(nn.Linear(8, 2), DiscreteActionValueHead()))
    return features(recurrent, head)


def make_acer(
    recurrent: bool = False, continuous: bool = False, optimizer: Any = torch.optim.SGD, lr: float = 0.1,
    replay: bool = True, **options: Any,
) -> ACER:  # fmt: skip
    """The same parameters every time; replay begins after ten transitions."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = acer_model(recurrent, continuous)
    arguments: dict[str, Any] = {"t_max": 4, "gamma": 0.9, "replay_start_size": 10, "n_times_replay": 2, **options}
    arguments.setdefault("replay_buffer", EpisodicReplayBuffer(1000) if replay else None)
    return ACER(model, optimizer(model.parameters(), lr=lr), recurrent=recurrent, **arguments)


#: Every form of the two agents, by name.
MAKE = {
    "A3C": make_a3c,
    "recurrent A3C": functools.partial(make_a3c, recurrent=True),
    "ACER": make_acer,
    "ACER without replay": functools.partial(make_acer, replay=False),
    "recurrent ACER": functools.partial(make_acer, recurrent=True),
}


def parameters(agent: Any) -> torch.Tensor:
    """All shared parameters, one after the other."""
    return torch.cat([param.detach().flatten() for param in agent.shared_model.parameters()])
