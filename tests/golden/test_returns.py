"""Returns over several steps of sequences, worked out by hand."""

import copy
from typing import Any

import pytest
import torch
from agent_parts import AGENTS, make_agent

from pfrl_like.batch import Batch
from pfrl_like.functions import n_step_returns
from pfrl_like.utils.recurrent import sequence_outputs

# Two sequences, a of four steps, the last one terminal, and b of two, cut off; gamma = 0.5. Packed: a0 b0 a1 b1 a2 a3.
LENGTHS = torch.tensor([4, 2])
REWARD = torch.tensor([1.0, 10.0, 2.0, 20.0, 3.0, 4.0])
DISCOUNT = torch.tensor([0.5, 0.5, 0.5, 0.5, 0.5, 0.0])


@pytest.mark.parametrize(
    ("num_steps", "returns", "discounts", "last"),
    [
        (1, [1, 10, 2, 20, 3, 4], [0.5, 0.5, 0.5, 0.5, 0.5, 0], [0, 1, 2, 3, 4, 5]),
        # a0: 1 + 2/2, then 1/4 of what follows a1. b0: 10 + 20/2. b1: nothing follows. a2: 3 + 4/2, and the end.
        (2, [2, 20, 3.5, 20, 5, 4], [0.25, 0.25, 0.25, 0.5, 0, 0], [2, 3, 4, 3, 5, 5]),
        # a0: 1 + 2/2 + 3/4, then 1/8 of what follows a2. a1: 2 + 3/2 + 4/4, and the end.
        (3, [2.75, 20, 4.5, 20, 5, 4], [0.125, 0.25, 0, 0.5, 0, 0], [4, 3, 5, 3, 5, 5]),
        (9, [3.25, 20, 4.5, 20, 5, 4], [0, 0.25, 0, 0.5, 0, 0], [5, 3, 5, 3, 5, 5]),
    ],
)
def test_rewards_are_summed_up_within_each_sequence(
    num_steps: int, returns: list[float], discounts: list[float], last: list[int]
) -> None:
    total, factor, row = n_step_returns(REWARD, DISCOUNT, LENGTHS, num_steps)
    assert total.tolist() == returns
    assert factor.tolist() == discounts
    # A step whose return holds the end of the episode bootstraps from nothing, whatever its row.
    assert row.tolist() == last


def sequences(seed: int) -> Batch:
    g = torch.Generator().manual_seed(seed)
    obs, next_obs = torch.randn(2, 6, 5, generator=g)
    action = torch.randint(2, (6,), generator=g)
    return Batch(obs, action, REWARD, next_obs, DISCOUNT, lengths=LENGTHS)


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("num_steps", [2, 3])
def test_an_agent_learns_from_the_value_after_n_steps(name: str, num_steps: int) -> None:
    agent: Any = make_agent(name, recurrent=True, num_steps=num_steps)
    one_step = make_agent(name, recurrent=True)
    one_step.load_state_dict(copy.deepcopy(agent.state_dict()))
    batch = sequences(0)
    reward, discount, row = n_step_returns(REWARD, DISCOUNT, LENGTHS, num_steps)
    # The same losses from an agent of one step, whose target network is told what the value after n steps is.
    torch.manual_seed(0)
    expected = one_step.loss(batch.replace(reward=reward, discount=discount, next_row=row))
    torch.manual_seed(0)
    loss, td_error, _ = agent.loss(agent._prepare(batch))
    assert torch.equal(loss, expected[0]) and torch.equal(td_error, expected[1])
    torch.manual_seed(0)
    one_step_loss, *_ = one_step.loss(batch)
    assert not torch.equal(loss, one_step_loss)


def test_the_target_of_dqn_is_that_of_the_papers_equation() -> None:
    agent: Any = make_agent("DQN", recurrent=True, num_steps=2)
    batch = sequences(1)
    with torch.no_grad():
        q = sequence_outputs(agent.model, batch.obs, None, LENGTHS).q_values
        after = sequence_outputs(agent.target_model, batch.next_obs, None, LENGTHS).max
    taken = q[torch.arange(6), batch.action]
    # a0: 1 + 2/2 + v(a1)/4; b0: 10 + 20/2 + v(b1)/4; a1: 2 + 3/2 + v(a2)/4; b1: 20 + v(b1)/2; a2: 3 + 4/2; a3: 4
    factor = torch.tensor([1 / 4, 1 / 4, 1 / 4, 1 / 2, 0, 0])
    target = torch.tensor([2, 20, 3.5, 20, 5, 4]) + factor * after[[2, 3, 4, 3, 5, 5]]
    _, td_error, _ = agent.loss(agent._prepare(batch))
    torch.testing.assert_close(td_error, target - taken)
