"""Losses of on-policy agents, and what they are made of, by hand."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from pfrl_like.agents.a2c import a2c_loss
from pfrl_like.agents.ppo import ppo_loss
from pfrl_like.agents.reinforce import low_memory_sum, reinforce_loss
from pfrl_like.agents.trpo import natural_step, surrogate_gain, value_loss
from pfrl_like.batch import Batch
from pfrl_like.functions import losses as library

HALF, FIFTH = math.log(0.5), math.log(0.2)
# Two states: the policy's probabilities of action 1 are 0.5 and 0.8, the values 1 and 3.
PROBS = torch.tensor([[0.5, 0.5], [0.2, 0.8]])
VALUES = torch.tensor([1.0, 3.0])


class Known(nn.Module):
    """Policy and values of the two states, which observations number."""

    def forward(self, obs: Tensor) -> tuple[Categorical, Tensor]:
        return Categorical(probs=PROBS[obs]), VALUES[obs].unsqueeze(1)


class KnownPolicy(nn.Module):
    def forward(self, obs: Tensor) -> Categorical:
        return Categorical(probs=PROBS[obs])


def batch(**fields: Any) -> Batch:
    """Action 1 in both states; it had the probabilities 0.4 and 0.5 when it was chosen, the values were 1.5 and 2."""
    defaults: dict[str, Any] = {
        "obs": torch.tensor([0, 1]),
        "action": torch.tensor([1, 1]),
        "log_prob": torch.tensor([0.4, 0.5]).log(),
        "value": torch.tensor([1.5, 2.0]),
        "advantage": torch.tensor([2.0, -1.0]),
        "returns": torch.tensor([2.0, 1.0]),
    }
    fields = {**defaults, **fields}
    return Batch(next_obs=None, reward=torch.zeros(2), discount=torch.zeros(2), **fields)


def test_actor_critic_loss_of_each_step() -> None:
    # -2 * 3 * -0.5 + 0.1 * (4 - 1)^2 - 10 * 0.7 = 3 + 0.9 - 7, and -2 * -1 * -2 + 0.1 * (1 - 1)^2 - 10 * 0.2 = -4 - 2
    columns = [[-0.5, -2.0], [3.0, -1.0], [0.7, 0.2], [1.0, 1.0], [4.0, 1.0]]
    log_prob, advantage, entropy, value, returns = torch.tensor(columns)
    losses = library.actor_critic_loss(
        log_prob, advantage, entropy, value, returns, pi_loss_coef=2.0, v_loss_coef=0.1, entropy_coef=10.0
    )
    assert losses.tolist() == pytest.approx([-3.1, -6.0])


def test_ppo_takes_the_worse_of_ratio_and_clipped_ratio() -> None:
    # ratios 0.5 / 0.4 = 1.25 and 0.8 / 0.5 = 1.6; clipped to [0.8, 1.2]: 1.2 and 1.2
    # min(1.25 * 2, 1.2 * 2) = 2.4        min(1.6 * -1, 1.2 * -1) = -1.6        mean 0.4
    # values (1 - 2)^2 = 1, (3 - 1)^2 = 4, mean 2.5
    # entropies ln 2 = 0.6931, 0.2 ln 5 + 0.8 ln 1.25 = 0.5004, mean 0.59678
    loss, stats = ppo_loss(Known(), batch(), clip_eps=0.2, value_func_coef=0.5, entropy_coef=0.1)
    entropy = (math.log(2) - 0.2 * math.log(0.2) - 0.8 * math.log(0.8)) / 2
    assert loss.item() == pytest.approx(-0.4 + 0.5 * 2.5 - 0.1 * entropy)
    assert stats["policy_loss"].item() == pytest.approx(-0.4)
    assert stats["value_loss"].item() == pytest.approx(2.5)
    # ratio - 1 - log ratio: 0.25 - 0.22314 = 0.02686, 0.6 - 0.47000 = 0.13000
    assert library.estimated_kl(stats["log_ratio"]).item() == pytest.approx((0.02685645 + 0.12999637) / 2, abs=1e-6)


def test_ppo_clips_values_around_the_old_ones() -> None:
    # within 0.3 of 1.5 and 2: 1 becomes 1.2, 3 becomes 2.3; (1.2 - 2)^2 = 0.64 < 1 and (2.3 - 1)^2 = 1.69 < 4
    assert ppo_loss(Known(), batch(), clip_eps_vf=0.3)[1]["value_loss"].item() == pytest.approx(2.5)
    # with returns 1 and 4: (1 - 1)^2 = 0 < (1.2 - 1)^2 = 0.04 and (3 - 4)^2 = 1 < (2.3 - 4)^2 = 2.89; mean 1.465
    changed = batch(returns=torch.tensor([1.0, 4.0]))
    assert ppo_loss(Known(), changed, clip_eps_vf=0.3)[1]["value_loss"].item() == pytest.approx(1.465)


def test_importance_weights_multiply_the_losses() -> None:
    weight = torch.tensor([0.5, 0.25])
    # PPO: -(0.5 * 2.4 - 0.25 * 1.6) / 2 + (0.5 * 1 + 0.25 * 4) / 2 = -0.4 + 0.75
    assert ppo_loss(Known(), batch(weight=weight), entropy_coef=0.0)[0].item() == pytest.approx(0.35)
    # A2C: -(0.5 * 2 ln 0.5 - 0.25 ln 0.8) / 2 + 0.75
    a2c = a2c_loss(Known(), batch(weight=weight), v_loss_coef=1.0, entropy_coeff=0.0)[0].item()
    assert a2c == pytest.approx(-(HALF - 0.25 * math.log(0.8)) / 2 + 0.75)
    # REINFORCE: -(0.5 * 2 ln 0.5 + 0.25 * 1 ln 0.8)
    reinforce = reinforce_loss(KnownPolicy(), batch(weight=weight)).item()
    assert reinforce == pytest.approx(-(HALF + 0.25 * math.log(0.8)))
    # TRPO: (0.5 * 1.25 * 2 - 0.25 * 1.6) / 2 = 0.425, and values as above
    gain = surrogate_gain(KnownPolicy()(torch.tensor([0, 1])), batch(weight=weight)).item()
    assert gain == pytest.approx(0.425)
    assert value_loss(lambda obs: VALUES[obs].unsqueeze(1), batch(weight=weight)).item() == pytest.approx(0.75)


def test_a2c_loss() -> None:
    # -(2 ln 0.5 - 1 ln 0.8) / 2, values as of PPO, entropies as above
    loss, stats = a2c_loss(Known(), batch(), pi_loss_coef=2.0, v_loss_coef=0.5, entropy_coeff=0.1)
    actor = -(2 * HALF - math.log(0.8)) / 2
    entropy = (math.log(2) - 0.2 * math.log(0.2) - 0.8 * math.log(0.8)) / 2
    assert loss.item() == pytest.approx(2 * actor + 0.5 * 2.5 - 0.1 * entropy)
    assert {name: value.item() for name, value in stats.items()} == pytest.approx(
        {"actor_loss": actor, "value": 2.0, "entropy": entropy}
    )


def test_reinforce_loss_is_a_sum() -> None:
    # returns 2 and 1: -(2 ln 0.5 + ln 0.8) - 0.1 * (0.6931 + 0.5004)
    entropy = math.log(2) - 0.2 * math.log(0.2) - 0.8 * math.log(0.8)
    loss = reinforce_loss(KnownPolicy(), batch(), beta=0.1)
    assert loss.item() == pytest.approx(-(2 * HALF + math.log(0.8)) - 0.1 * entropy)


def test_gradients_that_are_accumulated_are_those_of_the_sum() -> None:
    # f = x^2 + 3 x y at (2, 1): value 10, derivatives 2 x + 3 y = 7 and 3 x = 6; z has none
    x, y, z = (torch.tensor(value, requires_grad=True) for value in (2.0, 1.0, 5.0))
    loss = low_memory_sum((term() for term in (lambda: x * x, lambda: 3 * x * y)), [x, y, z])
    loss.backward()
    assert (loss.item(), x.grad, y.grad) == (10.0, 7.0, 6.0)


def test_surrogate_gain_of_trpo() -> None:
    # (1.25 * 2 - 1.6) / 2 = 0.45, and 0.1 of the mean entropy
    distribution = KnownPolicy()(torch.tensor([0, 1]))
    entropy = distribution.entropy().mean().item()
    assert surrogate_gain(distribution, batch()).item() == pytest.approx(0.45)
    assert surrogate_gain(distribution, batch(), 0.1).item() == pytest.approx(0.45 + 0.1 * entropy)


def test_a_loss_says_what_a_batch_lacks() -> None:
    with pytest.raises(ValueError, match="batch has no log_prob, advantage"):
        ppo_loss(Known(), batch(log_prob=None, advantage=None))


def natural_step_of_squares(**options: Any) -> list[float]:
    """The step from 0 where kl = (2 x^2 + 8 y^2) / 2 and gain = 4 x + 8 y."""
    x, y = (torch.zeros((), dtype=torch.float64, requires_grad=True) for _ in range(2))
    return natural_step(4 * x + 8 * y, (2 * x**2 + 8 * y**2) / 2, [x, y], max_iter=10, **options).tolist()


def test_the_natural_step_is_as_long_as_the_trust_region_allows() -> None:
    # kl = (2 x^2 + 8 y^2) / 2, gain = 4 x + 8 y: the direction is (4 / 2, 8 / 8) = (2, 1), whose kl is
    # (2 * 4 + 8 * 1) / 2 = 8; the step with kl 0.08 is 0.1 of it.
    assert natural_step_of_squares(max_kl=0.08, damping=0.0) == pytest.approx([0.2, 0.1])


def test_damping_is_added_to_the_fisher_matrix() -> None:
    # With 2 on the diagonal (4, 10): the direction is (1, 0.8), (4 * 1 + 10 * 0.64) / 2 = 5.2
    assert natural_step_of_squares(max_kl=5.2, damping=2.0) == pytest.approx([1.0, 0.8])


def test_a_parameter_without_influence_is_named_as_such() -> None:
    x, y = (torch.zeros((), requires_grad=True) for _ in range(2))
    with pytest.raises(ValueError, match="do not depend on"):
        natural_step(x, x**2, [x, y], max_kl=0.1, damping=0.0, max_iter=1)


def test_clipping_leaves_what_does_not_pay_off() -> None:
    ratio, advantage = torch.tensor([0.5, 0.5, 2.0, 2.0]), torch.tensor([1.0, -1.0, 1.0, -1.0])
    # 0.5 * 1, max would be 0.8 * 1;   -0.8 < -0.5;   1.2 < 2;   -2 < -1.2
    assert library.clipped_surrogate(ratio, advantage, 0.2).tolist() == pytest.approx([0.5, -0.8, 1.2, -2.0])


def test_standardised_numbers_have_mean_0_and_deviation_1() -> None:
    # mean 3, deviations -2, 0, 2, population variance 8 / 3
    root = math.sqrt(8 / 3)
    assert library.standardized(torch.tensor([1.0, 3.0, 5.0])).tolist() == pytest.approx([-2 / root, 0.0, 2 / root])
    assert library.standardized(torch.full((3,), 7.0)).tolist() == [0.0, 0.0, 0.0]


def test_explained_variance() -> None:
    # returns 1, 3: variance 1; differences 0.5, -0.5: variance 0.25
    assert library.explained_variance(torch.tensor([0.5, 3.5]), torch.tensor([1.0, 3.0])).item() == pytest.approx(0.75)
    assert math.isnan(library.explained_variance(torch.tensor([0.5, 3.5]), torch.tensor([1.0, 1.0])).item())
