"""Fitted Q evaluation learns the value of a policy that it leaves alone."""

import functools
from typing import Any

import numpy as np
import pytest
import torch
from actor_critic_parts import make_batch, make_critic, make_policy
from agent_parts import make_q_function
from gymnasium import spaces
from registry.actor_critics import discrete_policy
from torch import Tensor, nn

from pfrl_like import agents
from pfrl_like.agents.offline.fitted_q_evaluation import expected_next_value
from pfrl_like.batch import Batch
from pfrl_like.dataset import MDPDataset
from pfrl_like.envs.abc import ABC
from pfrl_like.explorers import AdditiveGaussian
from pfrl_like.nn import Lambda
from pfrl_like.policies import DeterministicHead, GaussianHeadWithFixedCovariance, SoftmaxCategoricalHead
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.testing import check_agent

GAMMA = 0.9


def make(kind: str, policy: Any = None, q_funcs: Any = None, lr: float = 1e-2, **options: Any) -> Any:
    if kind == "DiscreteFittedQEvaluation":
        policy, q_funcs = policy or discrete_policy(False), q_funcs or [make_q_function(obs_size=4) for _ in range(2)]
    policy, q_funcs = policy or make_policy("gaussian"), q_funcs or [make_critic() for _ in range(2)]
    optimizers = [torch.optim.Adam(each.parameters(), lr) for each in q_funcs]
    options = {"replay_start_size": 10, "minibatch_size": 4, "target_update_interval": 10, **options}
    return getattr(agents, kind)(policy, q_funcs, optimizers, ReplayBuffer(1_000), GAMMA, **options)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["FittedQEvaluation", "DiscreteFittedQEvaluation"])
def test_fitted_q_evaluation_keeps_the_contracts(kind: str) -> None:
    check_agent(functools.partial(make, kind), ABC(size=2, discrete=kind.startswith("Discrete")))


# A policy of known value: states 0 to 3 and two actions, drawn at random.

RNG = np.random.default_rng(0)
TRANSITION, REWARD = RNG.dirichlet(np.ones(4), (4, 2)), RNG.normal(size=(4, 2))
PROBS = np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.4, 0.6]])


def true_values(probs: Any) -> Any:
    """Q of a policy, [4, 2]: R + gamma P (pi Q) solved for Q."""
    following = GAMMA * np.einsum("sat,tb->satb", TRANSITION, probs).reshape(8, 8)
    return np.linalg.solve(np.eye(8) - following, REWARD.ravel()).reshape(4, 2)


def recorded(n: int = 20_000) -> MDPDataset:
    """Single steps from random states and actions, after which the episode is cut off."""
    rng = np.random.default_rng(1)
    state, action = rng.integers(4, size=n), rng.integers(2, size=n)
    following = (TRANSITION[state, action].cumsum(1) < rng.random((n, 1))).sum(1)
    cut, one_hot = np.ones(n, bool), np.eye(4, dtype=np.float32)
    return MDPDataset.from_arrays(
        one_hot[state], action, REWARD[state, action], ~cut, cut, next_observations=one_hot[following],
        discrete_action=True,
    )  # fmt: skip


def table(values: Any = None) -> nn.Linear:
    layer = nn.Linear(4, 2, bias=False)
    if values is not None:
        layer.weight.data = torch.tensor(values.T, dtype=torch.float32)
    return layer


@pytest.mark.slow
@pytest.mark.parametrize("deterministic", [False, True])
def test_modes_or_samples_are_evaluated_as_act_deterministically_says(deterministic: bool) -> None:
    torch.manual_seed(0)
    policy = nn.Sequential(table(np.log(PROBS)), SoftmaxCategoricalHead())
    q_func = nn.Sequential(table(), DiscreteActionValueHead())
    agent = make("DiscreteFittedQEvaluation", policy, [q_func], act_deterministically=deterministic, lr=0.03,
                 target_update_interval=25)  # fmt: skip
    data, rng = recorded(), np.random.default_rng(0)
    for step in range(2_000):
        if step == 1_500:
            agent.q_func1_optimizer.param_groups[0]["lr"] = 0.003
        agent.update(data.sample_batch(256, GAMMA, rng=rng))
    truth = true_values(np.eye(2)[PROBS.argmax(1)] if deterministic else PROBS)
    np.testing.assert_allclose(q_func[0].weight.detach().T, truth, atol=0.15)
    torch.testing.assert_close(policy[0].weight.T, torch.tensor(np.log(PROBS), dtype=torch.float32))


def test_the_expected_next_value_is_the_mean_over_the_policys_actions() -> None:
    policy = nn.Sequential(table(np.log(PROBS)), SoftmaxCategoricalHead())
    critic = nn.Sequential(table(REWARD), DiscreteActionValueHead())
    one_hot = torch.eye(4)
    batch = Batch(obs=one_hot, action=torch.zeros(4), reward=torch.zeros(4), next_obs=one_hot, discount=torch.ones(4))
    expected = (PROBS * REWARD).sum(1)
    np.testing.assert_allclose(expected_next_value(policy, critic, batch).q_values[:, 0].detach(), expected, rtol=1e-5)


class Value(nn.Module):
    """w0 + w1 a + w2 a**2."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))

    def forward(self, pair: tuple[Tensor, Tensor]) -> Tensor:
        action = pair[1]
        return torch.cat([torch.ones_like(action), action, action**2], 1) @ self.weight[:, None]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "deterministic", "mean_square"),
    [(DeterministicHead(), True, 0.0), (GaussianHeadWithFixedCovariance(0.25), False, 0.0625),
     (GaussianHeadWithFixedCovariance(0.25), True, 0.0)],
)  # fmt: skip
def test_a_continuous_policys_value_is_found(head: nn.Module, deterministic: bool, mean_square: float) -> None:
    # One state for ever, reward 1 - (a - 1/2)**2. A policy around 0.3 of some variance has V = 10 (1 - 0.04 - variance)
    # and Q(a) = 1 - (a - 1/2)**2 + 0.9 V = 3/4 + a - a**2 + 0.9 V.
    torch.manual_seed(0)
    policy, q_func = nn.Sequential(Lambda(lambda obs: torch.full_like(obs, 0.3)), head), Value()
    agent = make("FittedQEvaluation", policy, [q_func], act_deterministically=deterministic, lr=0.05,
                 target_update_interval=30)  # fmt: skip
    action, obs = np.linspace(-1, 1, 512)[:, None], np.ones((512, 1), np.float32)
    cut = np.ones(512, bool)
    data = MDPDataset.from_arrays(obs, action, 1 - (action[:, 0] - 0.5) ** 2, ~cut, cut, next_observations=obs)
    for _ in range(1_500):
        agent.update(data.sample_batch(256, GAMMA))
    found = q_func.weight.detach().numpy()
    np.testing.assert_allclose(found, [0.75 + 9 * (0.96 - mean_square), 1.0, -1.0], atol=0.15)


def test_each_critic_follows_its_own_target() -> None:
    agent = make("FittedQEvaluation", act_deterministically=True)
    batch = make_batch(0)
    before = agent.critic_losses(batch)
    for parameter in agent.target_q_func2.parameters():
        parameter.data.add_(1.0)
    after = agent.critic_losses(batch)
    assert torch.equal(before[0][0], after[0][0]) and not torch.equal(before[1][0], after[1][0])


def test_the_policy_is_neither_changed_nor_copied_and_the_explorer_adds_to_it() -> None:
    policy = make_policy("deterministic")
    before = [parameter.clone() for parameter in policy.parameters()]
    agent = make("FittedQEvaluation", policy, explorer=AdditiveGaussian(0.5))
    assert agent.policy is policy and not hasattr(agent, "target_policy")
    for seed in range(10):
        agent.update(make_batch(seed))
    assert all(map(torch.equal, before, policy.parameters()))
    obs = np.ones(4, np.float32)
    noisy = agent.act(obs)
    with agent.eval_mode():
        chosen = agent.act(obs)
    assert not np.allclose(noisy, chosen)
    assert agent.n_policy_updates == 0 and dict(agent.get_statistics())["n_updates"] == 10


@pytest.mark.parametrize(
    ("kind", "parts", "message"),
    [
        ("FittedQEvaluation", {"policy": nn.Sequential(nn.Linear(4, 2), SoftmaxCategoricalHead())},
         "or DiscreteFittedQEvaluation for discrete actions"),
        ("DiscreteFittedQEvaluation", {"policy": make_policy("gaussian")}, "policy gives .* expected"),
        ("FittedQEvaluation", {"q_funcs": nn.Sequential(nn.Linear(6, 1), nn.Linear(1, 1))}, "single Sequential"),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_are_refused(kind: str, parts: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make(kind, **parts).dry_run(np.zeros(4, np.float32))


def test_an_environment_of_other_actions_is_refused() -> None:
    with pytest.raises(TypeError, match="use DiscreteFittedQEvaluation"):
        make("FittedQEvaluation").dry_run(np.zeros(4, np.float32), spaces.Discrete(2))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["FittedQEvaluation", "DiscreteFittedQEvaluation"])
def test_a_compiled_update_gives_the_same_numbers(kind: str) -> None:
    found = []
    for compiled in (False, True):
        torch.manual_seed(0)
        agent = make(kind, act_deterministically=kind == "FittedQEvaluation", compile=compiled)
        for seed in range(5):
            batch = make_batch(seed)
            discrete = kind.startswith("Discrete")
            agent.update(batch.replace(action=(batch.action[:, 0] > 0).long()) if discrete else batch)
        found.append(nn.utils.parameters_to_vector(nn.ModuleList(agent.critics).parameters()))
    torch.testing.assert_close(*found)
