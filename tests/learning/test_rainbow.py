"""Rainbow (arXiv:1710.02298) as a composition: its six parts in one agent, which learns a known task."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pfrl_like.action_value import DistributionalDiscreteActionValue
from pfrl_like.agents import CategoricalDoubleDQN
from pfrl_like.batch import Batch
from pfrl_like.envs import SerialVectorEnv
from pfrl_like.experiments import train_agent, train_agent_batch
from pfrl_like.explorers import Greedy
from pfrl_like.nn import MLP, to_factorized_noisy
from pfrl_like.q_functions.dueling_dqn import dueling
from pfrl_like.replay_buffers import PrioritizedReplayBuffer
from pfrl_like.testing import Chain, check_agent

GAMMA = 0.5


class DuelingAtoms(nn.Module):
    """Dueling streams over 13 atoms from 0 to 6, for vectors."""

    def __init__(self, obs_size: int, n_actions: int, n_hidden: int = 32) -> None:
        super().__init__()
        self.n_actions = n_actions
        self.register_buffer("z_values", torch.linspace(0.0, 6.0, 13))
        self.hidden = nn.Sequential(nn.Linear(obs_size, n_hidden), nn.ReLU())
        self.advantage, self.value = MLP(n_hidden, n_actions * 13, []), MLP(n_hidden, 13, [])

    def forward(self, obs: Tensor) -> DistributionalDiscreteActionValue:
        hidden = self.hidden(obs)
        advantage = self.advantage(hidden).unflatten(1, (self.n_actions, 13))
        logits = dueling(self.value(hidden).unsqueeze(1), advantage)
        return DistributionalDiscreteActionValue(logits.softmax(2), self.z_values)


def make_rainbow(obs_size: int = 5, lr: float = 1e-2, **options: Any) -> CategoricalDoubleDQN:
    q_function = DuelingAtoms(obs_size, 2)
    to_factorized_noisy(q_function, sigma_scale=0.5)
    return CategoricalDoubleDQN(
        q_function,
        torch.optim.Adam(q_function.parameters(), lr=lr),
        PrioritizedReplayBuffer(1_000, alpha=0.5, beta0=0.4, betasteps=500, num_steps=3, normalize_by_max="memory"),
        GAMMA,
        Greedy(),
        **{"replay_start_size": 10, "minibatch_size": 4, "target_update_interval": 5, **options},
    )


def one(agent: CategoricalDoubleDQN, chain: Chain, outdir: Path) -> None:
    train_agent(agent, chain, 500, str(outdir))


def several(agent: CategoricalDoubleDQN, chain: Chain, outdir: Path) -> None:
    train_agent_batch(agent, SerialVectorEnv([Chain(3, time_limit=6) for _ in range(4)]), 500, str(outdir))


@pytest.mark.slow
@pytest.mark.parametrize("train", [pytest.param(one, marks=pytest.mark.slow), several])
def test_it_learns_the_best_actions_and_their_values_by_noise_alone(train: Callable[..., None], tmp_path: Path) -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    chain = Chain(3, time_limit=6)
    agent = make_rainbow(4, replay_start_size=50, minibatch_size=32, target_update_interval=20)
    obs, true = torch.eye(4)[:3], chain.q_values(GAMMA)[:3]
    train(agent, chain, tmp_path)
    with torch.no_grad():
        learnt = torch.stack([agent.model(obs).q_values for _ in range(50)]).mean(0).numpy()
    assert learnt.argmax(1).tolist() == true.argmax(1).tolist()
    np.testing.assert_allclose(learnt.max(1), true.max(1), atol=0.6)


@pytest.mark.slow
def test_it_keeps_the_contracts() -> None:
    check_agent(make_rainbow)


def test_online_and_target_network_draw_noise_of_their_own_at_each_update() -> None:
    agent, obs = make_rainbow(), torch.eye(5)
    agent.update(random_batch())
    with torch.no_grad():
        values = [model(obs).q_values for model in (agent.model, agent.model, agent.target_model, agent.target_model)]
    assert len({tuple(value.flatten().tolist()) for value in values}) == 4
    assert all(not module.training for module in agent.target_model.modules())


def test_evaluation_draws_noise_as_well() -> None:
    agent = make_rainbow()
    with agent.eval_mode():
        actions = [int(agent.act(np.zeros(5, dtype=np.float32))) for _ in range(200)]
    assert set(actions) == {0, 1}


def test_what_was_saved_acts_alike_under_the_same_noise(tmp_path: Path) -> None:
    agent, other = make_rainbow(), make_rainbow()
    agent.update(random_batch())
    agent.save(str(tmp_path))
    other.load(str(tmp_path))
    values = []
    for each in (agent, other):
        torch.manual_seed(3)
        values.append(each.model(torch.eye(5)).q_values)
    assert torch.equal(*values)


@pytest.mark.slow
def test_compiled_updates_draw_new_noise_at_each_call() -> None:
    agent, batch = make_rainbow(lr=0.0, compile=True), random_batch()
    errors = [agent.update(batch)[0] for _ in range(6)]
    assert len({tuple(error.tolist()) for error in errors}) == 6


@pytest.mark.slow
def test_compiled_actions_draw_new_noise_at_each_call() -> None:
    agent = make_rainbow(compile=True)
    obs = [np.zeros(5, dtype=np.float32)] * 8
    with agent.eval_mode():
        actions = [tuple(np.asarray(agent.batch_act(obs)).tolist()) for _ in range(50)]
    assert len(set(actions[5:])) > 1


@pytest.mark.slow
def test_compiled_it_learns(tmp_path: Path) -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    chain = Chain(3, time_limit=6)
    agent = make_rainbow(4, replay_start_size=50, minibatch_size=32, target_update_interval=20, compile=True)
    one(agent, chain, tmp_path)
    with torch.no_grad():
        learnt = torch.stack([agent.model(torch.eye(4)[:3]).q_values for _ in range(50)]).mean(0)
    assert learnt.argmax(1).tolist() == chain.q_values(GAMMA)[:3].argmax(1).tolist()


def random_batch() -> Batch:
    obs, next_obs = torch.randn(2, 8, 5, generator=torch.Generator().manual_seed(0))
    zeros = torch.zeros(8, dtype=torch.int64)
    return Batch(obs, zeros, torch.ones(8), next_obs, torch.full((8,), 0.5), weight=torch.ones(8))
