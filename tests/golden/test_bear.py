"""BEAR: discrepancies, targets and losses worked out by hand, the arithmetic beside them."""

import functools
import math
from typing import Any

import numpy as np
import pytest
import torch
from actor_critic_parts import make_batch, make_policy
from hand_parts import Ramps, Slope
from registry import made
from registry.constrained import make_vae, of_pairs
from torch import nn

from pfrl_like.agents import BEAR
from pfrl_like.agents.offline.bear import bear_next_value
from pfrl_like.agents.soft_actor_critic import sac_policy_loss
from pfrl_like.batch import Batch
from pfrl_like.distributions import DiagonalGaussian
from pfrl_like.functions import maximum_mean_discrepancy
from pfrl_like.nn import ConditionalVAE, Lambda
from pfrl_like.policies import SoftmaxCategoricalHead

make = functools.partial(made, BEAR, entropy_target=None)


# The discrepancy


def test_the_discrepancy_compares_all_pairs() -> None:
    x = torch.tensor([[[0.0, 0.0]], [[2.0, 1.0]]])
    y = torch.tensor([[[1.0, 0.0]]])
    # Squared distances: of x 0 and 5, twice each; of x and y 1 and 2; of y 0. Absolute ones: 0 and 3; 1 and 2; 0.
    for kernel, within, across in (("gaussian", 5, (1, 2)), ("laplacian", 3, (1, 2))):
        k = [math.exp(-d / 6) for d in (within, *across)]
        expected = math.sqrt((2 + 2 * k[0]) / 4 - (k[1] + k[2]) + 1 + 1e-6)
        assert maximum_mean_discrepancy(x, y, 3.0, kernel).tolist() == pytest.approx([expected])
    assert maximum_mean_discrepancy(x, x, 3.0).tolist() == pytest.approx([1e-3])
    rows = torch.cat([x, y.expand(2, 1, 2)], 1)  # each row for itself
    assert maximum_mean_discrepancy(rows, rows[:, [1, 1]], 3.0)[1].item() == pytest.approx(1e-3)


def test_the_discrepancy_has_a_finite_gradient_where_there_is_none() -> None:
    x = torch.zeros(2, 1, 1, requires_grad=True)
    maximum_mean_discrepancy(x, torch.zeros(2, 1, 1), 1.0).sum().backward()
    assert x.grad is not None and x.grad.abs().max() == 0


def test_the_discrepancy_is_that_of_policy_and_imitator() -> None:
    batch = make_batch()
    for imitator in (make_vae(), make_policy("gaussian")):
        for mmd_kernel in ("gaussian", "laplacian"):
            agent = make(imitator=imitator, n_mmd_action_samples=5, mmd_kernel=mmd_kernel, mmd_sigma=2.0)
            torch.manual_seed(1)
            found = agent._discrepancy(batch)
            torch.manual_seed(1)
            is_vae = isinstance(imitator, ConditionalVAE)
            y = imitator.draw(batch.obs, 5) if is_vae else imitator(batch.obs).sample((5,))
            x = agent.policy(batch.obs).rsample((5,))
            torch.testing.assert_close(found, maximum_mean_discrepancy(x, y, 2.0, mmd_kernel))
            assert found.requires_grad


# Targets and losses


def test_the_target_is_the_best_of_some_actions_under_the_soft_minimum() -> None:
    obs = torch.tensor([[3.0], [4.0]])
    batch = Batch(obs, obs, torch.zeros(2), obs, torch.full((2,), 0.5))
    # Q = s + a and s - 3 a of a = -1, 0, 1: the least of both are s - 1, s, s - 3, the largest s + 3, s, s + 1.
    density = [-0.5 * math.log(2 * math.pi) - 0.5 * a * a for a in (-1, 0, 1)]
    for lam, n_action_samples, best, action in ((1.0, 3, 0.0, 0), (0.5, 3, 1.0, -1), (0.0, 1, 3.0, -1)):
        value, log_prob = bear_next_value(Ramps(1, 1), [Slope(1.0), Slope(-3.0)], batch, n_action_samples, lam)
        torch.testing.assert_close(value.q_values, obs + best)
        assert log_prob.tolist() == pytest.approx([density[action + 1]] * 2)
    agent, other = make(), make_batch()
    torch.manual_seed(1)
    expected, log_prob = bear_next_value(agent.policy, agent.target_critics, other, 3, 0.75)
    torch.manual_seed(1)
    value, reward = agent.bootstrap(other)
    torch.testing.assert_close(value.q_values, expected.q_values)
    torch.testing.assert_close(reward, other.reward - 0.9 * 0.2 * log_prob)


def test_evaluation_takes_the_action_of_most_value_among_some() -> None:
    obs = [np.array([3.0], np.float32), np.array([4.0], np.float32)]
    for slope, least in ((1.0, False), (-1.0, True)):
        agent = make(n_action_samples=5)
        agent.policy, agent.acting_critic = Lambda(lambda s: DiagonalGaussian(0 * s, torch.ones_like(s))), Slope(slope)
        torch.manual_seed(1)
        drawn = torch.randn(2, 5)
        torch.manual_seed(1)
        with agent.eval_mode():
            taken = agent.batch_act(obs)
        assert taken.tolist() == (drawn.amin(1) if least else drawn.amax(1)).view(2, 1).tolist()


def test_it_draws_for_active_environments_alone_and_explores_by_samples() -> None:
    agent, obs = make(n_action_samples=50), [np.full(4, 0.1, np.float32)] * 3
    assert agent.acting_critic is agent.q_func1

    def drawn(seed: int = 1, **told: Any) -> Any:
        torch.manual_seed(seed)
        return agent.batch_act(obs, **told)

    sampled = drawn()
    torch.manual_seed(1)
    np.testing.assert_array_equal(sampled, agent.policy(torch.as_tensor(np.stack(obs))).sample())
    with agent.eval_mode():
        evaluated = drawn()
        assert not np.array_equal(evaluated, drawn(2))
        np.testing.assert_array_equal(drawn(active=np.array([True, False, False]))[0], evaluated[0])
        before = torch.get_rng_state()
        assert not agent.batch_act(obs, active=np.zeros(3, bool)).any() and torch.equal(before, torch.get_rng_state())
        agent.act_deterministically = False
        np.testing.assert_array_equal(drawn(), sampled)
    stacked = torch.as_tensor(np.stack(obs))
    values = [agent.values_of_pairs(stacked, torch.as_tensor(action))[0] for action in (evaluated, sampled)]
    assert values[0].mean() > values[1].mean()


def test_the_discrepancy_counts_in_the_policys_loss() -> None:
    batch = make_batch()
    weight = batch.required("weight")[0]
    for initial_alpha in (0.0, 2.0):
        agent, losses = make(initial_alpha=initial_alpha, alpha_threshold=None), []
        torch.manual_seed(1)
        plain = sac_policy_loss(agent.policy, agent.critics, batch, 0.2)[0]
        discrepancy = agent._discrepancy(batch)
        torch.manual_seed(1)
        agent.policy_step(batch, lambda name, loss, losses=losses: losses.append((name, loss)))
        assert [name for name, _ in losses] == ["policy_optimizer"]
        torch.testing.assert_close(losses[0][1], plain + initial_alpha * (weight * discrepancy).mean())


def test_alpha_grows_where_the_discrepancy_is_above_its_threshold() -> None:
    for alpha_threshold, sign in ((0.0, 1), (100.0, -1)):
        agent = make(alpha_threshold=alpha_threshold, initial_alpha=1.0, alpha_optimizer_lr=0.25)
        agent.update(make_batch())
        assert agent.alpha == pytest.approx(math.exp(sign * 0.25))  # Adam's first step is as long as its rate
        statistics = dict(agent.get_statistics())
        assert statistics["alpha"] == agent.alpha and 0 < statistics["average_mmd"] < 1


def test_only_the_imitator_learns_before_rl_start_step() -> None:
    agent, batch = make(rl_start_step=1), make_batch()
    before = {name: value.clone() for name, value in agent.policy.state_dict().items()}
    agent.update(batch)
    assert all(torch.equal(value, before[name]) for name, value in agent.policy.state_dict().items())
    agent.update(batch)
    assert not all(torch.equal(value, before[name]) for name, value in agent.policy.state_dict().items())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lam": 2}, "lam is 2"),
        ({"n_mmd_action_samples": 1}, "n_mmd_action_samples"),
        ({"mmd_kernel": "linear"}, "mmd_kernel is 'linear', expected one of 'gaussian', 'laplacian'"),
        ({"mmd_sigma": 0}, "mmd_sigma is 0"),
        ({"initial_alpha": 0}, "initial_alpha is 0, expected a positive number"),
        ({"recurrent": True}, "recurrent is True, but BEAR does not support recurrent networks"),
        ({"imitator": nn.Linear(4, 2)}, "imitator gives Tensor"),
        ({"imitator": nn.Sequential(nn.Linear(4, 2), SoftmaxCategoricalHead())}, "imitator gives Categorical"),
        ({"imitator": ConditionalVAE(nn.Linear(6, 6), of_pairs(7, 2), 3)}, "imitator.encoder.* ConcatObs"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make(**options).dry_run(make_batch().obs[0].numpy())
