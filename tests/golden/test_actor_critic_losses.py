"""Losses of DDPG, TD3 and Soft Actor-Critic with numbers worked out by hand, the arithmetic beside them."""

import math
from typing import Any

import pytest
import torch
from hand_parts import Acts, Gaussian, Slope, column
from torch import Tensor, nn

from pfrl_like import action_value as forms
from pfrl_like.agents.ddpg import ddpg_next_value, ddpg_policy_loss
from pfrl_like.agents.discrete_sac import value_of_state
from pfrl_like.agents.soft_actor_critic import sac_policy_loss, soft_next_value, soft_reward
from pfrl_like.agents.td3 import default_target_policy_smoothing_func, td3_next_value
from pfrl_like.batch import Batch
from pfrl_like.functions.losses import half_square, square
from pfrl_like.learning.critics import critic_loss, value_of
from pfrl_like.learning.lagrange import temperature_loss
from pfrl_like.nn import RecurrentSequential
from pfrl_like.q_functions import DiscreteActionValueHead

#: Two steps, the second of which is terminal.
BATCH = Batch(
    obs=column(1.0, 2.0),
    action=column(0.5, -1.0),
    reward=torch.tensor([1.0, 10.0]),
    next_obs=column(3.0, 4.0),
    discount=torch.tensor([0.9, 0.0]),
)
LOG_DENSITY = -math.log(math.sqrt(2 * math.pi))  # of a Gaussian of scale 1 at its mean


def test_the_critic_of_ddpg_bootstraps_from_the_target_policys_action() -> None:
    next_value = ddpg_next_value(Acts(2.0), Slope(0.5), BATCH)
    assert next_value.q_values.flatten().tolist() == [6.0, 8.0]  # 3 + 0.5 * 6, 4 + 0.5 * 8
    loss, td_error, value = critic_loss(value_of(Slope(2.0), BATCH), BATCH, next_value, elementwise=square)
    assert value.tolist() == [2.0, 0.0]  # 1 + 2 * 0.5, 2 - 2 * 1
    assert td_error.tolist() == pytest.approx([4.4, 10.0])  # 1 + 0.9 * 6 - 2, 10 - 0
    assert loss.item() == pytest.approx((4.4**2 + 100) / 2)


def test_weights_and_the_sum_of_a_critics_loss() -> None:
    weighted = BATCH.replace(weight=torch.tensor([0.5, 0.1]))
    next_value = ddpg_next_value(Acts(2.0), Slope(0.5), BATCH)
    loss, td_error, _ = critic_loss(
        value_of(Slope(2.0), weighted), weighted, next_value, elementwise=half_square, accumulator="sum"
    )
    assert loss.item() == pytest.approx(0.5 * (0.5 * 4.4**2 + 0.1 * 100))
    assert td_error.tolist() == pytest.approx([4.4, 10.0])


def test_the_policy_of_ddpg_ascends_the_critic() -> None:
    policy, critic = Acts(2.0), Slope(0.5)
    loss, q = ddpg_policy_loss(policy, critic, BATCH)
    assert q.tolist() == [2.0, 4.0]  # 1 + 0.5 * 2, 2 + 0.5 * 4
    assert loss.item() == -3.0
    loss.backward()
    assert policy.gain.grad == -0.75  # -(0.5 * 1 + 0.5 * 2) / 2
    loss, _ = ddpg_policy_loss(policy, critic, BATCH.replace(weight=torch.tensor([1.0, 0.5])), "sum")
    assert loss.item() == -4.0  # -(1 * 2 + 0.5 * 4)


def test_td3_takes_the_least_value_of_a_disturbed_action() -> None:
    value = td3_next_value(Acts(2.0), [Slope(0.5), Slope(-1.0), Slope(3.0)], BATCH, lambda action: action - 7.0)
    # actions 6 - 7 = -1 and 8 - 7 = 1: of (2.5, 4, 0) and (4.5, 3, 7) the least
    assert value.q_values.flatten().tolist() == [0.0, 3.0]


def test_the_smoothing_noise_is_cut_off_and_so_are_the_actions() -> None:
    torch.manual_seed(0)
    smoothed = default_target_policy_smoothing_func(torch.zeros(10_000, 1))
    assert smoothed.abs().max() == 0.5  # 1.2 % of Gaussian numbers are beyond 2.5 times the scale
    assert (smoothed.abs() == 0.5).float().mean() == pytest.approx(0.0124, abs=0.004)
    assert smoothed.std() == pytest.approx(0.2, rel=0.03)
    assert default_target_policy_smoothing_func(torch.full((1_000, 1), 0.95)).max() == 1.0


def test_the_soft_target_takes_the_log_probability_off() -> None:
    next_value, log_prob = soft_next_value(Gaussian(2.0), [Slope(0.5), Slope(1.0)], BATCH)
    assert next_value.q_values.flatten().tolist() == [6.0, 8.0]
    assert log_prob.tolist() == pytest.approx([LOG_DENSITY] * 2)
    reward = soft_reward(BATCH, log_prob, 0.2)
    assert reward.tolist() == pytest.approx([1 - 0.9 * 0.2 * LOG_DENSITY, 10.0])
    _, td_error, _ = critic_loss(value_of(Slope(2.0), BATCH), BATCH, next_value, reward)
    assert td_error.tolist() == pytest.approx([1 + 0.9 * (6 - 0.2 * LOG_DENSITY) - 2, 10.0])


def test_the_policy_of_sac_weighs_value_against_entropy() -> None:
    policy = Gaussian(2.0)
    loss, log_prob, entropy = sac_policy_loss(policy, [Slope(0.5), Slope(-1.0)], BATCH, 0.2)
    # values 1 + 0.5 * 2 and 1 - 2, 2 + 0.5 * 4 and 2 - 4: the least are -1 and -2
    assert loss.item() == pytest.approx(0.2 * LOG_DENSITY + 1.5)
    assert log_prob.tolist() == pytest.approx([LOG_DENSITY] * 2)
    assert entropy.tolist() == pytest.approx([0.5 - LOG_DENSITY] * 2)  # of a Gaussian of scale 1, by its formula
    loss.backward()
    assert policy.gain.grad == pytest.approx(1.5)  # of -(s - gain * s): (1 + 2) / 2
    weighted = BATCH.replace(weight=torch.tensor([1.0, 0.0]))
    loss, *_ = sac_policy_loss(policy, [Slope(0.5), Slope(-1.0)], weighted, 0.2, "sum")
    assert loss.item() == pytest.approx(0.2 * LOG_DENSITY + 1)


def test_the_temperature_rises_where_the_entropy_is_below_its_target() -> None:
    temperature = torch.tensor(0.5, requires_grad=True)
    loss = temperature_loss(temperature, torch.tensor([3.0, 0.0]), -2.0)
    assert loss.item() == pytest.approx(0.25)  # -0.5 * ((3 - 2) + (0 - 2)) / 2
    loss = temperature_loss(temperature, torch.tensor([3.0, 0.0]), -2.0, torch.tensor([1.0, 0.0]), "sum")
    loss.backward()
    assert loss.item() == -0.5 and temperature.grad == -1.0  # entropy -3 is below -2: descending raises it


def test_the_least_of_distributions_is_the_whole_one_of_the_lesser_mean() -> None:
    # means 2 and 1.5 in the first state, 0 and 5 in the second
    first, second = torch.tensor([[1.0, 3.0], [0.0, 0.0]]), torch.tensor([[-3.0, 6.0], [5.0, 5.0]])
    values = [forms.QuantileDiscreteActionValue(each.unsqueeze(2)) for each in (first, second)]
    assert forms.min_of(values).quantiles.squeeze(2).tolist() == [[-3.0, 6.0], [0.0, 0.0]]
    z = torch.tensor([0.0, 1.0])
    atoms = [forms.DistributionalDiscreteActionValue(torch.tensor([[[1 - p, p]]]), z) for p in (0.7, 0.4)]
    assert forms.min_of(atoms).q_dist.flatten().tolist() == pytest.approx([0.6, 0.4])

    def implicit(height: float) -> forms.ImplicitQuantileActionValue:
        return forms.ImplicitQuantileActionValue(
            torch.zeros(1, 1), lambda features, taus: (height + taus).unsqueeze(2), taus=torch.tensor([[0.5]])
        )

    chosen = forms.min_of([implicit(2.0), implicit(1.0)])
    assert chosen(torch.tensor([[0.25, 0.75]])).quantiles.flatten().tolist() == [1.25, 1.75]
    numbers = [forms.DiscreteActionValue(column(1.0, 4.0)), forms.DiscreteActionValue(column(2.0, 3.0))]
    assert forms.min_of(numbers).q_values.flatten().tolist() == [1.0, 3.0]
    with pytest.raises(TypeError, match="DiscreteActionValue, QuantileDiscreteActionValue, which cannot be compared"):
        forms.min_of([numbers[0], values[0]])


@pytest.mark.parametrize("form", ["quantiles", "atoms", "implicit", "proposed"])
def test_of_several_actions_one_is_compared_and_all_are_given(form: str) -> None:
    def value_of_means(means: Tensor) -> Any:
        def quantile_function(features: Tensor, taus: Tensor) -> Tensor:
            return means.unsqueeze(1) + taus.unsqueeze(2) - 0.5

        middle = torch.full((2, 1), 0.5)
        return {
            "quantiles": lambda: forms.QuantileDiscreteActionValue(means.unsqueeze(1)),
            "atoms": lambda: forms.DistributionalDiscreteActionValue(
                torch.stack([1 - means / 10, means / 10], 2), torch.tensor([0.0, 10.0])
            ),
            "implicit": lambda: forms.ImplicitQuantileActionValue(torch.zeros(2, 1), quantile_function, taus=middle),
            "proposed": lambda: forms.FullyParametrizedActionValue(
                torch.zeros(2, 1), quantile_function, torch.ones(2, 1)
            ),
        }[form]()

    # The first critic holds less of action 0, the second one of action 1, in both states.
    values = [value_of_means(torch.tensor([means, means])) for means in ([1.0, 4.0], [2.0, 3.0])]
    chosen = forms.min_of(values, torch.tensor([0, 1]))
    means = chosen.at_even_fractions().q_values if hasattr(chosen, "at_even_fractions") else chosen.q_values
    torch.testing.assert_close(means, torch.tensor([[1.0, 4.0], [2.0, 3.0]]))


def test_a_recurrent_critic_remembers_the_actions_that_were_taken() -> None:
    rnn = nn.RNN(2, 1, bias=False)
    critic = RecurrentSequential(Sum(), rnn)
    with torch.no_grad():
        rnn.weight_ih_l0[:] = torch.tensor([[1.0, 0.0]])
        rnn.weight_hh_l0[:] = 1.0

    def h(x: float, before: float = 0.0) -> float:
        return math.tanh(x + before)

    # one sequence of two steps: obs + action is 0.3, then 0.2; other actions make it 0.7 and 0.4
    batch = Batch(
        obs=column(0.1, 0.2), action=column(0.2, 0.0), reward=torch.zeros(2), next_obs=column(0.2, 0.3),
        discount=torch.ones(2), lengths=torch.tensor([2]),
    )  # fmt: skip
    first = h(0.3)
    assert value_of(critic, batch).q_values.flatten().tolist() == pytest.approx([first, h(0.2, first)])
    other = value_of(critic, batch, column(0.6, 0.2))
    assert other.q_values.flatten().tolist() == pytest.approx([h(0.7), h(0.4, first)])
    after = value_of(critic, batch, column(0.6, 0.2), next=True)
    assert after.q_values.flatten().tolist() == pytest.approx([h(0.8, first), h(0.5, h(0.2, first))])
    jumped = value_of(critic, batch.replace(next_row=torch.tensor([1, 1])), column(0.6, 0.2), next=True)
    assert jumped.q_values.flatten().tolist() == pytest.approx([h(0.9, h(0.2, first)), h(0.5, h(0.2, first))])


def test_a_recurrent_critic_of_discrete_actions_begins_where_the_sequence_does() -> None:
    rnn = nn.RNN(1, 1, bias=False)
    critic = RecurrentSequential(rnn, DiscreteActionValueHead())
    with torch.no_grad():
        rnn.weight_ih_l0[:] = rnn.weight_hh_l0[:] = 1.0
    of_the_policy = torch.full((1, 1, 7), 5.0)  # which fits no critic
    batch = Batch(
        obs=column(0.1, 0.2), action=torch.tensor([0, 0]), reward=torch.zeros(2), next_obs=column(0.2, 0.3),
        discount=torch.ones(2), lengths=torch.tensor([2]), recurrent_state=of_the_policy,
        next_recurrent_state=of_the_policy,
    )  # fmt: skip
    first = math.tanh(0.1)
    second = math.tanh(0.2 + first)
    third = math.tanh(0.3 + second)
    assert value_of_state(critic, batch).q_values.flatten().tolist() == pytest.approx([first, second])
    assert value_of_state(critic, batch, next=True).q_values.flatten().tolist() == pytest.approx([second, third])


class Sum(nn.Module):
    """Observation and action added up, with a zero beside."""

    def forward(self, pair: Any) -> Tensor:
        total = pair[0] + pair[1]
        return torch.cat([total, torch.zeros_like(total)], dim=1)


def test_what_is_no_value_of_one_action_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a critic gives numbers of shape \(2, 2\) for 2 rows, expected one"):
        value_of(Sum(), BATCH)
    with pytest.raises(TypeError, match="a critic gives str, expected DiscreteActionValue"):
        value_of(lambda pair: "value", BATCH)
