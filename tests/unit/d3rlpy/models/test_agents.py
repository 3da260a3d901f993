"""The networks are parts of this library's agents: each agent makes an update."""

from typing import Any

import numpy as np
import pytest
import torch

from pfrl_like import agents, explorers
from pfrl_like.batch import Batch
from pfrl_like.d3rlpy.models import (
    IQNQFunctionFactory,
    MeanQFunctionFactory,
    QFunctionFactory,
    QRQFunctionFactory,
    VectorEncoderFactory,
)
from pfrl_like.d3rlpy.models.heads import Perturbation, ValueFunction, encoder_and_size
from pfrl_like.d3rlpy.models.policies import DeterministicPolicy, GaussianPolicy, conditional_vae
from pfrl_like.d3rlpy.models.q_functions import critics
from pfrl_like.d3rlpy.preprocessing import MinMaxObservationScaler
from pfrl_like.replay_buffers import ReplayBuffer

ENCODER = VectorEncoderFactory([8])
SCALER = MinMaxObservationScaler(np.zeros(3), np.ones(3))
PARTS = {"observation_shape": (3,), "scaler": SCALER}
Q_FUNCTIONS = [
    MeanQFunctionFactory(),
    MeanQFunctionFactory(True),
    QRQFunctionFactory(n_quantiles=4),
    IQNQFunctionFactory(),
]


def batch(action: Any) -> Batch:
    ones = torch.ones(4)
    return Batch(obs=torch.rand(4, 3), action=action, reward=ones, next_obs=torch.rand(4, 3), discount=0.9 * ones)


def adam(module: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(module.parameters(), 1e-2)


def learns(agent: Any, action: Any, *networks: torch.nn.Module) -> None:
    before = [parameter.detach().clone() for network in networks for parameter in network.parameters()]
    agent.update(batch(action))
    after = [parameter for network in networks for parameter in network.parameters()]
    assert all(not torch.equal(a, b) for a, b in zip(after, before, strict=True))


def continuous_critics(factory: QFunctionFactory) -> Any:
    return critics(factory, ENCODER, action_size=2, discrete=False, n_critics=2, **PARTS)  # type: ignore[arg-type]


@pytest.mark.parametrize("factory", Q_FUNCTIONS)
def test_dqn_learns_with_the_q_functions(factory: QFunctionFactory) -> None:
    q_function = critics(factory, ENCODER, action_size=2, discrete=True, n_critics=2, **PARTS)  # type: ignore[arg-type]
    agent = agents.DQN(q_function, adam(q_function), ReplayBuffer(100_000), 0.9, explorers.Greedy())
    members = [*q_function.members]
    learns(agent, torch.tensor([0, 1, 0, 1]), *(member._fc for member in members), members[0]._encoder)  # type: ignore[arg-type]


@pytest.mark.parametrize("factory", Q_FUNCTIONS)
def test_soft_actor_critic_learns_with_policy_and_critics(factory: QFunctionFactory) -> None:
    policy, q_function = GaussianPolicy(*encoder_and_size(ENCODER, (3,)), 2, SCALER), continuous_critics(factory)
    agent = agents.SoftActorCritic(
        policy, q_function, None, adam(policy), adam(q_function), None, ReplayBuffer(100_000), 0.9,
        initial_temperature=1.0, entropy_target=-2.0, temperature_optimizer_lr=1e-3,
    )  # fmt: skip
    learns(agent, torch.rand(4, 2), policy._mu, *(member._fc for member in q_function.members))


def test_iql_learns_with_policy_critics_and_value() -> None:
    policy = GaussianPolicy(
        *encoder_and_size(ENCODER, (3,)), 2, SCALER, squashes_samples=False, min_logstd=-5.0, has_common_std=True
    )
    q_function, value = continuous_critics(Q_FUNCTIONS[0]), ValueFunction(*encoder_and_size(ENCODER, (3,)), 1, SCALER)
    agent = agents.IQL(
        policy,
        q_function,
        None,
        adam(policy),
        adam(q_function),
        None,
        ReplayBuffer(100_000),
        0.9,
        v_func=value,
        v_func_optimizer=adam(value),
    )
    learns(agent, torch.rand(4, 2) * 0.1, policy._mu, value._fc)


def test_bcq_and_td3_plus_bc_learn() -> None:
    policy = DeterministicPolicy(*encoder_and_size(ENCODER, (3,)), 2, SCALER)
    q_function = continuous_critics(Q_FUNCTIONS[0])
    td3 = agents.TD3PlusBC(
        policy, q_function, None, adam(policy), adam(q_function), None, ReplayBuffer(100_000), 0.9, explorers.Greedy()
    )
    td3.update(batch(torch.rand(4, 2)))
    learns(td3, torch.rand(4, 2), policy._fc)
    xi = Perturbation(*encoder_and_size(ENCODER, (3,), 2), 2, SCALER, takes_action=True)
    vae, q_function = conditional_vae(ENCODER, (3,), 2, SCALER), continuous_critics(Q_FUNCTIONS[0])
    bcq = agents.BCQ(
        xi,
        q_function,
        None,
        adam(xi),
        adam(q_function),
        None,
        ReplayBuffer(100_000),
        0.9,
        imitator=vae,
        imitator_optimizer=adam(vae),
    )
    learns(bcq, torch.rand(4, 2), xi._fc, vae.decoder)
