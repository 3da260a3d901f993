"""Options of agents for the formulas of d3rlpy 2.8, with numbers worked out by hand."""

from typing import Any

import torch
from hand_parts import Acts, Slope, Table, column
from torch import nn

from pfrl_like.agents import DQN, TD3
from pfrl_like.batch import Batch
from pfrl_like.explorers import Greedy
from pfrl_like.q_functions import QFunctionEnsemble
from pfrl_like.replay_buffers import ReplayBuffer

#: Two steps, the second of which is terminal.
BATCH = Batch(
    obs=column(1.0, 2.0),
    action=column(0.5, -1.0),
    reward=torch.tensor([1.0, 10.0]),
    next_obs=column(3.0, 4.0),
    discount=torch.tensor([0.9, 0.0]),
)


def sgd(module: nn.Module, lr: float = 0.5) -> torch.optim.Optimizer:
    return torch.optim.SGD(module.parameters(), lr=lr)


# Delayed updates


def targets_of_dqn(delays_first_update: bool) -> list[float]:
    """The target network's weight after each of four updates."""
    table = Table([0.0])
    options: dict[str, Any] = {"clip_delta": False, "target_update_interval": 2}
    agent = DQN(table, sgd(table), ReplayBuffer(), 0.9, Greedy(), **options)
    agent.delays_first_update = delays_first_update
    zero = torch.zeros(1)
    batch = Batch(torch.ones(1), zero.long(), torch.ones(1), torch.ones(1), zero)
    weights: list[float] = []
    for _ in range(4):
        agent.update(batch)
        weights.append(agent.target_model.weight.item())
    return weights


def test_the_target_of_dqn_is_copied_after_the_first_update_and_every_second_one_from_there() -> None:
    # Half of the way from the weight to the reward 1 in each update: 0.5, 0.75, 0.875, 0.9375
    assert targets_of_dqn(True) == [0.0, 0.0, 0.75, 0.75]  # copied before the third update
    assert targets_of_dqn(False) == [0.5, 0.5, 0.875, 0.875]


def gains_of_td3(delays_first_update: bool) -> list[float]:
    """The gain of the target policy after each of four updates."""
    policy, critics = Acts(2.0), QFunctionEnsemble([Slope(0.5)])
    optimizers = sgd(policy, lr=1.0), sgd(critics, lr=0.0)
    options: dict[str, Any] = {"soft_update_tau": 1.0, "target_policy_smoothing_func": torch.clone}
    agent = TD3(policy, critics, None, *optimizers, None, ReplayBuffer(), 0.9, Greedy(), **options)
    agent.delays_first_update = delays_first_update
    gains: list[float] = []
    for _ in range(4):
        agent.update(BATCH)
        gains.append(agent.target_policy.gain.item())
    return gains


def test_the_first_update_of_td3_is_one_of_the_policy_and_of_all_targets() -> None:
    # The slope of one critic, 0.5, times the mean of the states, 1.5, is added to the gain.
    assert gains_of_td3(True) == [2.0, 2.75, 2.75, 3.5]
    assert gains_of_td3(False) == [2.75, 2.75, 3.5, 3.5]
