"""Targets of actor-critics are the true values of a known task, however episodes end and environments are driven."""

import itertools
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from chain_parts import several
from gymnasium.vector import AutoresetMode
from torch import Tensor, nn

from pfrl_like.agents import DDPG, TD3, SoftActorCritic
from pfrl_like.distributions import DiagonalGaussian
from pfrl_like.envs import SerialVectorEnv
from pfrl_like.experiments import train_agent_batch
from pfrl_like.explorers import AdditiveGaussian, Greedy
from pfrl_like.replay_buffers import EpisodicReplayBuffer, ReplayBuffer
from pfrl_like.testing import Chain, ChainQFunction
from pfrl_like.testing.play import GO_ON

GAMMA, SIZE = 0.9, 4
ENDINGS: dict[str, dict[str, Any]] = {
    "terminated": {},
    "truncated": {"terminates": False, "time_limit": 5},
    "both": {"time_limit": 3},
}


class Continuous(gymnasium.ActionWrapper[Any, Any, Any]):
    """The chain with one number as action: it goes on if that is positive."""

    def __init__(self, chain: Chain) -> None:
        super().__init__(chain)
        self.action_space = gymnasium.spaces.Box(-9, 9, (1,), np.float32)

    def action(self, action: Any) -> int:
        return int(np.asarray(action).item() > 0)


class TrueValue(nn.Module):
    """The optimal values of a chain, by the sign of the action."""

    def __init__(self, chain: Chain) -> None:
        super().__init__()
        self.q_function = ChainQFunction(chain, GAMMA)

    def forward(self, pair: Any) -> Tensor:
        obs, action = pair
        value: Tensor = self.q_function(obs).evaluate_actions((action[:, 0] > 0).long())
        return value


class GoesOn(nn.Module):
    """Goes on, in every state; the number says nothing beyond its sign."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.ones(1))

    def forward(self, obs: Tensor) -> DiagonalGaussian:
        return DiagonalGaussian(self.mean.expand(len(obs), 1), 1e-3)


def make_agent(kind: Any, chain: Chain, buffer: Any, explores: bool) -> Any:
    """An agent that knows all and never learns."""
    policy = GoesOn()
    critics = [TrueValue(chain) for _ in range(1 if kind is DDPG else 2)]
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.0) for part in (policy, *critics)]
    options: dict[str, Any] = {"initial_temperature": 0.0}
    if kind is not SoftActorCritic:
        options = {"explorer": AdditiveGaussian(1.5) if explores else Greedy()}
    return kind(policy, *critics, *optimizers, buffer, GAMMA, replay_start_size=10_000, **options)


CASES = [
    pytest.param(*case, marks=[] if case[1:] in {("both", AutoresetMode.NEXT_STEP, 2, 3)} else pytest.mark.slow)
    for case in itertools.product([DDPG, TD3, SoftActorCritic], ENDINGS, [None, *AutoresetMode], [1, 2], [1, 3])
]


@pytest.mark.parametrize(("kind", "ending", "mode", "n_envs", "num_steps"), CASES)
def test_td_errors_of_the_true_values_are_zero(
    kind: Any, ending: str, mode: AutoresetMode | None, n_envs: int, num_steps: int, tmp_path: Any
) -> None:
    def make() -> Any:
        return Continuous(Chain(SIZE, **ENDINGS[ending]))

    chain = Chain(SIZE, **ENDINGS[ending])
    # Only a window of best actions has the true value of its first one.
    agent = make_agent(kind, chain, ReplayBuffer(10_000, num_steps=num_steps), explores=num_steps == 1)
    train_agent_batch(agent, several(make, n_envs, mode), 60, tmp_path)
    batch = agent.replay_buffer.sample_batch(len(agent.replay_buffer), GAMMA)
    assert (batch.discount == 0).any() == chain.terminates
    assert ((batch.action > 0).long() == GO_ON).all() or num_steps == 1
    errors = list(agent.critic_losses(batch))[0][1]
    torch.testing.assert_close(errors / 30, torch.zeros_like(errors), rtol=0, atol=1e-6)


@pytest.mark.parametrize("ending", ENDINGS)
def test_td_errors_in_episodes_are_zero(ending: str, tmp_path: Any) -> None:
    chain = Chain(SIZE, **ENDINGS[ending])
    agent = make_agent(TD3, chain, EpisodicReplayBuffer(10_000), explores=True)
    train_agent_batch(agent, SerialVectorEnv([Continuous(chain)]), 60, tmp_path)
    errors = list(agent.critic_losses(agent.replay_buffer.sample_batch(40, GAMMA)))[0][1]
    torch.testing.assert_close(errors / 30, torch.zeros_like(errors), rtol=0, atol=1e-6)
