"""Agents whose policy imitates recorded actions: their arguments, what they sample, the contracts."""

import functools
import logging
from typing import Any

import numpy as np
import pytest
import torch
from actor_critic_parts import ENV, make_batch, make_policy
from argument_effects import modules_of
from gymnasium import spaces
from hand_parts import with_nothing_after
from registry import REGISTRY
from registry import made as make
from torch import nn

from pfrl_like.agents import IQL, DiscreteIQL
from pfrl_like.agents.offline.awac import REDUCTIONS, binary_weight, sampled_advantage
from pfrl_like.agents.offline.iql import state_value_of
from pfrl_like.agents.offline.td3_plus_bc import rebrac_policy_loss
from pfrl_like.dataset import MDPDataset
from pfrl_like.errors import NonFiniteError
from pfrl_like.functions import exponential_weight
from pfrl_like.learning.actor_critic import OffPolicyActorCritic
from pfrl_like.nn import Lambda
from pfrl_like.policies import DeterministicHead, GaussianHeadWithDiagonalCovariance, SquashedGaussianHead
from pfrl_like.replay_buffers import EpisodicReplayBuffer, ReplayBuffer
from pfrl_like.testing.play import difference

ACTOR_CRITICS = ("TD3PlusBC", "ReBRAC", "AWAC", "CRR", "IQL")
KINDS = (*ACTOR_CRITICS, "AWR", "BC", "DiscreteBC")


def recorded(discrete: bool = False, n: int = 48) -> MDPDataset:
    """Episodes of six steps that end in a terminal state or are cut off, in turn."""
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(n, 5 if discrete else 4)).astype(np.float32)
    actions = rng.integers(0, 2, n) if discrete else rng.uniform(-1, 1, (n, 2))
    ends = np.arange(n) % 6 == 5
    following = np.where(ends[:, None], obs + 1, np.roll(obs, -1, axis=0))
    terminal = ends & (np.arange(n) % 12 == 5)
    return MDPDataset.from_arrays(obs, actions, rng.normal(size=n), terminal, ends & ~terminal, following)


# Contracts


@pytest.mark.parametrize("kind", KINDS)
def test_weights_count_in_every_loss(kind: str) -> None:
    batch = make_batch()
    if kind == "DiscreteBC":
        batch = batch.replace(action=torch.randint(2, (8,)))
    batch = with_nothing_after(batch).replace(next_action=batch.action, weight=torch.zeros(8))
    agent = make(kind)
    before = modules_of(agent, targets=False)
    for _ in range(2):
        agent.update(batch)
    assert "policy" in before
    assert difference(modules_of(agent, targets=False), before, exact=True) is None


# BC


def test_bcs_logger_hears_of_a_refused_update(caplog: pytest.LogCaptureFixture) -> None:
    agent = make("BC", logger=logging.getLogger("of.a.user"))
    agent.update(make_batch().replace(reward=torch.full((8,), torch.nan)))  # which counts for nothing
    with pytest.raises(NonFiniteError):
        agent.update(make_batch().replace(action=torch.full((8, 2), torch.nan)))
    assert [record.name for record in caplog.records] == ["of.a.user"]


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("head", [DeterministicHead, SquashedGaussianHead, GaussianHeadWithDiagonalCovariance])
def test_actions_of_another_size_are_not_imitated(head: Any, n: int) -> None:
    policy = nn.Sequential(nn.Linear(4, n if head is DeterministicHead else 2 * n), head())
    before = nn.utils.parameters_to_vector(policy.parameters()).clone()
    agent = make("BC", policy=policy)
    with pytest.raises(ValueError, match=rf"actions (have shapes|of shape) \((8, )?{n},?\)"):
        agent.update(make_batch())
    assert torch.equal(nn.utils.parameters_to_vector(policy.parameters()), before) and agent.optim_t == 0


# ReBRAC


def test_rebracs_two_weights_are_those_of_its_two_losses() -> None:
    policy, batch = make_policy("deterministic"), make_batch()
    agent = make("ReBRAC", policy=policy, actor_beta=0.5, critic_beta=2.0)
    batch = batch.replace(next_action=batch.action)
    torch.manual_seed(0)
    penalised = agent.bootstrap(batch)[1]
    agent.critic_beta = 0.0
    torch.manual_seed(0)
    assert torch.equal(agent.bootstrap(batch)[1], batch.reward)
    assert (penalised <= batch.reward).all() and (penalised < batch.reward).any()
    expected = rebrac_policy_loss(agent.policy, agent.critics, batch, 0.5)
    torch.testing.assert_close(agent.policy_loss(batch), expected)


# Next actions


@pytest.mark.parametrize("num_steps", [1, 2])
def test_a_dataset_gives_the_next_actions_it_knows(num_steps: int) -> None:
    dataset = recorded()
    batch = dataset.batch(np.arange(12), 0.9, num_steps=num_steps, next_actions=True)
    assert batch.next_action.dtype == torch.float32
    actions = torch.from_numpy(dataset.to_arrays()["actions"]).float()
    for i in range(12):
        following = i + num_steps
        if following // 6 == i // 6:
            assert torch.equal(batch.next_action[i], actions[following])
        else:
            assert batch.next_action[i].isnan().all()
    assert dataset.batch(np.arange(3)).next_action is None
    discrete = recorded(discrete=True)
    ends = discrete.batch(np.array([4, 5]), next_actions=True)
    assert ends.next_action.tolist() == [discrete.to_arrays()["actions"][5], -1]


@pytest.mark.parametrize("kind", [ReplayBuffer, functools.partial(ReplayBuffer, num_steps=3), EpisodicReplayBuffer])
def test_a_buffer_gives_the_next_actions_it_knows(kind: Any) -> None:
    buffer, num_steps = kind(20 if kind is EpisodicReplayBuffer else 10), kind(1).num_steps
    for i in range(14):  # the action is the number of the step; the sixth one ends its episode
        buffer.append(np.array([float(i)]), np.float32([i]), 0.0, np.array([i + 1.0]), is_state_terminal=i == 5)
    if kind is EpisodicReplayBuffer:
        buffer.stop_current_episode()
    batch = buffer.sample_batch(len(buffer), next_actions=True)
    for obs, following in zip(batch.obs.flatten().tolist(), batch.next_action.flatten().tolist(), strict=True):
        known = obs + num_steps < (6 if obs <= 5 else 14)
        assert following == obs + num_steps if known else np.isnan(following)
    if kind is EpisodicReplayBuffer:
        sequences = buffer.sample_sequences(2, next_actions=True)
        known = sequences.next_action.isfinite()
        assert torch.equal((sequences.action + 1)[known], sequences.next_action[known])
        assert sequences.obs[~known].flatten().tolist() in ([5.0, 13.0], [13.0, 5.0])


def test_next_actions_that_were_stored_are_taken() -> None:
    buffer = ReplayBuffer(10)
    for i in range(3):
        buffer.append(np.array([float(i)]), np.float32([i]), 0.0, np.array([i + 1.0]), np.float32([i + 10]))
    batch = buffer.sample_batch(3, next_actions=True)
    assert torch.equal(batch.next_action, batch.action + 10)


# AWAC, CRR and IQL


def test_weights_are_made_of_the_advantage_over_drawn_actions() -> None:
    batch = make_batch()

    def weights(agent: Any, pool: Any, n: int) -> tuple[torch.Tensor, torch.Tensor]:
        torch.manual_seed(0)
        given = agent._weight(batch)
        torch.manual_seed(0)
        return given, sampled_advantage(agent.policy, agent.critics, batch, n, pool)

    given, advantage = weights(make("AWAC", lam=0.1, n_action_samples=3, max_weight=2.0), torch.mean, 3)
    torch.testing.assert_close(given, exponential_weight(advantage, 0.1, 2.0))
    for pool in ("mean", "max"):
        options: dict[str, Any] = {"advantage_type": pool, "n_action_samples": 5, "beta": 0.2, "max_weight": 3.0}
        given, advantage = weights(make("CRR", **options), REDUCTIONS[pool], 5)
        torch.testing.assert_close(given, exponential_weight(advantage, 0.2, 3.0))
        given, advantage = weights(make("CRR", weight_type="binary", **options), REDUCTIONS[pool], 5)
        assert torch.equal(given, binary_weight(advantage))


@pytest.mark.parametrize("kind", ["AWAC", "CRR"])
def test_weights_are_asked_of_critics_in_evaluation_mode(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = make(kind)
    modes: list[bool] = []
    weight = agent._weight
    critic = agent.q_func1
    critic.add_module("dropout", nn.Dropout())
    monkeypatch.setattr(agent, "_weight", lambda batch: (modes.append(critic.training), weight(batch))[1])
    agent.update(make_batch())
    assert modes == [False] and critic.training


def test_iqls_weights_are_those_of_q_over_v() -> None:
    agent, batch = make("IQL", expectile=0.9, beta=5.0, max_weight=3.0), make_batch()
    advantage = torch.linspace(-1, 1, 8)
    weight = agent._weight(batch.replace(advantage=advantage))
    torch.testing.assert_close(weight, (5 * advantage).exp().clamp(max=3.0))


class Counting(OffPolicyActorCritic):
    """A class that others have beside their own line."""

    n_steps = 0

    def update_step(self, *args: Any, **options: Any) -> Any:
        self.n_steps += 1
        return super().update_step(*args, **options)


@pytest.mark.parametrize("kind", [IQL, DiscreteIQL])
def test_an_update_of_iql_passes_through_a_class_beside(kind: type[Any]) -> None:
    both: Any = type("Both", (kind, Counting), {})
    agent, batch = both(**REGISTRY[kind.__name__].arguments()), make_batch()
    agent.update(batch.replace(action=torch.randint(2, (8,))) if kind is DiscreteIQL else batch)
    assert agent.n_steps == 1


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("DiscreteBC", {"beta": -1}, "beta is -1"),
        ("ReBRAC", {"actor_beta": -1}, "actor_beta is -1"),
        ("CRR", {"advantage_type": "median"}, "advantage_type is 'median', expected one of 'mean', 'max'"),
        ("CRR", {"weight_type": "sum"}, "weight_type is 'sum', expected one of 'exp', 'binary'"),
        ("AWAC", {"lam": 0}, "lam is 0, expected a number above 0"),
        ("IQL", {"expectile": 1.0}, "expectile is 1.0"),
        ("IQL", {"beta": 0}, "beta is 0"),
    ],
)
def test_numbers_and_names_out_of_range_are_refused(kind: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(kind, **options)


def test_an_environment_of_other_actions_is_refused() -> None:
    with pytest.raises(TypeError, match="BC has continuous actions, .* use DiscreteBC"):
        make("BC").dry_run(ENV.observation_space.sample(), spaces.Discrete(2))
    with pytest.raises(TypeError, match="DiscreteBC has discrete actions, .* use BC"):
        make("DiscreteBC").dry_run(ENV.observation_space.sample(), ENV.action_space)


def test_a_value_function_of_something_else_is_refused() -> None:
    v_func, batch = make_policy("deterministic"), make_batch()
    with pytest.raises(TypeError, match="v_func gives DeltaVector"):
        make("IQL", v_func=v_func).dry_run(ENV.observation_space.sample())
    with pytest.raises(ValueError, match=r"v_func returns shape \(8, 4\) for 8 rows"):
        state_value_of(Lambda(lambda obs: obs), batch)
    with pytest.raises(ValueError, match="v_func returns DeltaVector for 8 rows"):
        state_value_of(v_func, batch)
