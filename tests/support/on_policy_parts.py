"""Small on-policy agents and what they are made of, for tests that need one."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from pfrl_like.agents import A2C, APPO, IMPALA, PPO, REINFORCE, TRPO, OnPolicyAgent
from pfrl_like.nn import Branched, RecurrentBranched, RecurrentSequential
from pfrl_like.policies import GaussianHeadWithStateIndependentCovariance, SoftmaxCategoricalHead
from pfrl_like.utils.contexts import ignores_training

ON_POLICY = ("PPO", "A2C", "IMPALA", "APPO", "REINFORCE", "TRPO")

#: The agents learn every 10 steps, or after each episode.
OPTIONS: dict[str, dict[str, Any]] = {
    "PPO": {"gamma": 0.9, "update_interval": 10, "minibatch_size": 4, "epochs": 2},
    "A2C": {"gamma": 0.9, "num_processes": 2, "update_steps": 5},
    "IMPALA": {"gamma": 0.9, "update_interval": 10},
    "APPO": {"gamma": 0.9, "update_interval": 10, "minibatch_size": 4, "epochs": 2},
    "REINFORCE": {"learn_from_truncated": True},
    "TRPO": {"gamma": 0.9, "update_interval": 10, "vf_batch_size": 4},
}


def make_nets(
    recurrent: bool = False, obs_size: int = 5, n_actions: int = 2, continuous: bool = False
) -> tuple[nn.Module, nn.Module]:
    """A small policy and a small value function."""
    head = GaussianHeadWithStateIndependentCovariance(n_actions) if continuous else SoftmaxCategoricalHead()
    if recurrent:
        policy = RecurrentSequential(nn.Linear(obs_size, 8), nn.Tanh(), nn.LSTM(8, 8), nn.Linear(8, n_actions), head)
        return policy, RecurrentSequential(nn.GRU(obs_size, 8), nn.Linear(8, 1))
    policy = nn.Sequential(nn.Linear(obs_size, 16), nn.Tanh(), nn.Linear(16, n_actions), head)
    return policy, nn.Sequential(nn.Linear(obs_size, 16), nn.Tanh(), nn.Linear(16, 1))


def make_on_policy(
    kind: str = "PPO",
    recurrent: bool = False,
    *,
    nets: tuple[nn.Module, nn.Module] | None = None,
    optimizer: Callable[..., torch.optim.Optimizer] = functools.partial(torch.optim.Adam, lr=1e-2),  # noqa: B008
    **options: Any,
) -> OnPolicyAgent:
    """An agent for observations of 5 numbers and 2 actions; options go to its constructor."""
    policy, vf = make_nets(recurrent) if nets is None else nets
    own = {**OPTIONS[kind], "recurrent": recurrent, **options}
    if kind == "TRPO":
        return TRPO(policy, vf, optimizer(vf.parameters()), **own)
    if kind == "REINFORCE":
        return REINFORCE(policy, optimizer(policy.parameters()), **own)
    model = (RecurrentBranched if recurrent else Branched)(policy, vf)
    return {"PPO": PPO, "A2C": A2C, "IMPALA": IMPALA, "APPO": APPO}[kind](model, optimizer(model.parameters()), **own)


@ignores_training
class Table(nn.Module):
    """A number, or several, for each state that a one-hot observation names."""

    def __init__(self, numbers: Any) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.tensor(numbers))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return obs.to(self.table.dtype) @ self.table


def one_hot(state: int, size: int = 5) -> np.ndarray:
    """The observation of a state."""
    obs = np.zeros(size, np.float32)
    obs[state] = 1.0
    return obs


def drive(agent: Any, steps: list[tuple[int, float, int, bool, bool]], mask: Any = None) -> None:
    """Steps (state, reward, next state, terminated, truncated) of one environment."""
    for state, reward, following, terminated, truncated in steps:
        agent.act(one_hot(state), **({} if mask is None else {"action_mask": mask}))
        agent.observe(one_hot(following), reward, terminated, truncated)
