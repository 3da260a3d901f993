"""An agent learns the values of a known MDP from a dataset alone, by `update`."""

import numpy as np
import pytest
import torch

from pfrl_like.agents import DQN
from pfrl_like.dataset import MDPDataset
from pfrl_like.explorers import Greedy
from pfrl_like.q_functions import SingleModelStateQFunctionWithDiscreteAction
from pfrl_like.replay_buffers import ReplayBuffer

GAMMA = 0.5
# State 0: action 1 leads to state 1, action 0 ends with reward 0.25. State 1: action 1 ends with reward 1, 0 with 0.
# Q(1, .) = 0, 1 and Q(0, .) = 0.25, 0.5 * 1.
EXPECTED = [[0.25, 0.5], [0.0, 1.0]]


def recorded() -> MDPDataset:
    one, two, end = np.eye(3, dtype=np.float64)
    observations = np.array([one, end, one, two, end, one, two, end])
    return MDPDataset(
        observations, np.array([0, 9, 1, 0, 9, 1, 1, 9]) % 9, np.array([5, 0.25, 5, 0, 0, 5, 0, 1]),
        np.array([0, 1, 0, 0, 1, 0, 0, 1]), discrete_action=True, reward_convention="next_row",
    )  # fmt: skip


def dqn(replay_buffer: ReplayBuffer) -> DQN:
    torch.manual_seed(0)
    q_function = SingleModelStateQFunctionWithDiscreteAction(torch.nn.Linear(3, 2, bias=False))
    return DQN(
        q_function, torch.optim.SGD(q_function.parameters(), 0.5), replay_buffer, GAMMA, Greedy(),
        target_update_interval=5, minibatch_size=5, replay_start_size=5,
    )  # fmt: skip


@pytest.mark.parametrize("num_steps", [1, 2])
def test_dqn_learns_the_values_of_recorded_steps(num_steps: int) -> None:
    agent = dqn(ReplayBuffer())
    dataset, rng = recorded(), np.random.default_rng(0)
    for _ in range(200):
        agent.update(dataset.sample_batch(5, GAMMA, num_steps=num_steps, rng=rng))
    values = agent.model(torch.eye(3)[:2]).q_values.tolist()
    if num_steps == 2:  # the mean of what followed action 1 in state 0: 0 (it went on with 0) and 0.5
        assert values == [pytest.approx([0.25, 0.25], abs=0.05), pytest.approx(EXPECTED[1], abs=0.02)]
    else:
        assert values == [pytest.approx(row, abs=0.02) for row in EXPECTED]
