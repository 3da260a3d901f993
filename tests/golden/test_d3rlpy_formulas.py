"""Options of agents for the formulas of d3rlpy 2.8, with numbers worked out by hand."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hand_parts import Acts, Gaussian, Ramps, Slope, Table, column
from torch import Tensor, nn

from pfrl_like.action_value import DiscreteActionValue, EnsembleActionValue
from pfrl_like.agents import CQL, DQN, TD3, CalQL, DiscreteCQL, SoftActorCritic
from pfrl_like.agents.offline.cql import (
    discrete_conservative_gap,
    max_next_value,
    mode_next_value,
    pooled_conservative_gap,
)
from pfrl_like.batch import Batch
from pfrl_like.explorers import Greedy
from pfrl_like.functions.losses import square
from pfrl_like.q_functions import QFunctionEnsemble
from pfrl_like.replay_buffers import ReplayBuffer

#: Two steps, the second of which is terminal.
BATCH = Batch(
    obs=column(1.0, 2.0),
    action=column(0.5, -1.0),
    reward=torch.tensor([1.0, 10.0]),
    next_obs=column(3.0, 4.0),
    discount=torch.tensor([0.9, 0.0]),
)
LOG_DENSITY = -math.log(math.sqrt(2 * math.pi))  # of a Gaussian of scale 1 at its mean
sgd_of = torch.optim.SGD


def sgd(module: nn.Module, lr: float = 0.5) -> torch.optim.Optimizer:
    return sgd_of(module.parameters(), lr=lr)


# Delayed updates


def targets_of_dqn(delays_first_update: bool) -> list[float]:
    """The target network's weight after each of four updates."""
    table = Table([0.0])
    options: dict[str, Any] = {"clip_delta": False, "target_update_interval": 2}
    agent = DQN(table, sgd(table), ReplayBuffer(), 0.9, Greedy(), **options)
    agent.delays_first_update = delays_first_update
    zero = torch.zeros(1)
    batch = Batch(torch.ones(1), zero.long(), torch.ones(1), torch.ones(1), zero)
    weights: list[float] = []
    for _ in range(4):
        agent.update(batch)
        weights.append(float(agent.target_model.weight))
    return weights


def test_the_target_of_dqn_is_copied_after_the_first_update_and_every_second_one_from_there() -> None:
    # Half of the way from the weight to the reward 1 in each update: 0.5, 0.75, 0.875, 0.9375
    assert targets_of_dqn(True) == [0.0, 0.0, 0.75, 0.75]  # copied before the third update
    assert targets_of_dqn(False) == [0.5, 0.5, 0.875, 0.875]


def gains_of_td3(delays_first_update: bool) -> list[float]:
    """The gain of the target policy after each of four updates."""
    policy, critics = Acts(2.0), QFunctionEnsemble([Slope(0.5)])
    optimizers = sgd(policy, lr=1.0), sgd(critics, lr=0.0)
    options: dict[str, Any] = {"soft_update_tau": 1.0, "target_policy_smoothing_func": torch.clone}
    agent = TD3(policy, critics, None, *optimizers, None, ReplayBuffer(), 0.9, Greedy(), **options)
    agent.delays_first_update = delays_first_update
    gains: list[float] = []
    for _ in range(4):
        agent.update(BATCH)
        gains.append(agent.target_policy.gain.item())
    return gains


def test_the_first_update_of_td3_is_one_of_the_policy_and_of_all_targets() -> None:
    # The slope of one critic, 0.5, times the mean of the states, 1.5, is added to the gain.
    assert gains_of_td3(True) == [2.0, 2.75, 2.75, 3.5]
    assert gains_of_td3(False) == [2.75, 2.75, 3.5, 3.5]


# Soft Actor-Critic


def sac(kind: Any = SoftActorCritic, critics: Sequence[float] = (0.5,), **options: Any) -> Any:
    """An agent with the policy's gain 2 and critics of these slopes; SGD with the learning rate 1 moves multipliers."""
    policy, ensemble = Gaussian(2.0), QFunctionEnsemble([Slope(each) for each in critics])
    optimizers = sgd(policy, lr=0.0), sgd(ensemble, lr=0.0)
    multipliers = ["temperature", "alpha"] if kind is CQL else ["temperature"]
    options = {"multiplier_optimizers": {name: functools.partial(sgd_of, lr=1.0) for name in multipliers}} | options
    return kind(policy, ensemble, None, *optimizers, None, ReplayBuffer(), 0.9, entropy_target=-1.0, **options)


def test_critics_of_sac_minimise_half_the_square_or_the_square() -> None:
    halves, squares = sac(), sac(elementwise=square)
    ((half, td_error, _),) = halves.critic_losses(BATCH)
    ((whole, _, _),) = squares.critic_losses(BATCH)
    # Values 1 + 0.5 * 0.5 and 2 - 0.5; the first target 1 + 0.9 * (3 + 0.5 * 6 - log density), the second 10
    assert td_error.tolist() == pytest.approx([1 + 0.9 * (6 - LOG_DENSITY) - 1.25, 8.5])
    assert half.item() == pytest.approx(td_error.square().sum().item() / 4)
    assert whole.item() == pytest.approx(2 * half.item())


def test_the_policy_of_sac_pays_the_temperature_before_or_after_its_step() -> None:
    # d/dT of -exp(log T) * (log density - 1) at T = 1 moves log T by log density - 1
    moved = math.exp(LOG_DENSITY - 1)
    for first, temperature in ((False, 1.0), (True, moved)):
        agent = sac(multipliers_first=first)
        _, stats = agent.update(BATCH)
        # Values 1 + 0.5 * 2 and 2 + 0.5 * 4
        assert stats["policy_loss"].item() == pytest.approx(temperature * LOG_DENSITY - 3)
        assert agent.temperature == pytest.approx(moved)
        assert stats["temperature_loss"].item() == pytest.approx(1 - LOG_DENSITY)


def test_an_optimizer_of_an_unknown_multiplier_is_refused() -> None:
    with pytest.raises(ValueError, match="multiplier_optimizers has the keys {'alpha'}, expected some of"):
        sac(multiplier_optimizers={"alpha": sgd_of})


# Conservative Q-Learning


def test_alpha_of_cql_moves_before_or_after_the_critics() -> None:
    for first in (False, True):
        agent = sac(CQL, (0.5, -1.0), multipliers_first=first, initial_alpha=2.0, alpha_threshold=6.0)
        torch.manual_seed(0)
        gaps: list[Tensor] = []
        terms = [*agent._conservative_terms(BATCH, gaps)]
        gap = torch.stack(gaps).mean()  # over the critics and the rows
        torch.manual_seed(0)
        _, stats = agent.update(BATCH)
        # d/d log alpha of -alpha * (gap - 6) at alpha = 2
        alpha = 2 * torch.exp(2 * (gap - 6))
        assert agent.alpha == pytest.approx(alpha.item(), rel=1e-5)
        weight = alpha if first else 2
        expected = sum(loss + weight * each for (loss, _, _), each in terms)
        torch.testing.assert_close(stats["loss"], expected.detach())
        torch.testing.assert_close(stats["conservative_gap"].mean(), gap)


def test_alpha_does_not_exceed_its_maximum() -> None:
    agent = sac(CQL, initial_alpha=8.0, max_alpha=5.0)
    assert agent.alpha == 5.0
    assert sac(CQL, initial_alpha=8.0).alpha == pytest.approx(8.0)
    agent.update(BATCH)
    assert agent.alpha_holder.log_temperature.item() == pytest.approx(math.log(8.0))  # min(exp(x), 5) is flat at 8


def test_targets_of_cql_are_the_modes_value_or_the_largest_of_sampled_actions() -> None:
    critics = [Slope(0.5), Slope(-1.0)]
    # The action 2 * s: 3 + 0.5 * 6 and 3 - 6, 4 + 0.5 * 8 and 4 - 8
    assert mode_next_value(Gaussian(2.0), critics, BATCH).q_values.flatten().tolist() == [-3.0, -4.0]
    # Actions -1, 0, 1: of 3 + 0.5 a and 3 - a the least are 2.5, 3 and 2
    assert max_next_value(Ramps(1, 1.0), critics, BATCH, 3).q_values.flatten().tolist() == [3.0, 4.0]
    agent = sac(CQL, (0.5, -1.0), soft_q_backup=False, next_value=mode_next_value)
    next_value, reward = agent.bootstrap(BATCH)
    assert next_value.q_values.flatten().tolist() == [-3.0, -4.0] and reward is BATCH.reward
    with pytest.raises(ValueError, match="soft_q_backup is True"):
        sac(CQL, next_value=mode_next_value)


def test_the_gap_of_discrete_cql_is_the_sum_over_critics_or_that_of_their_mean() -> None:
    members = [DiscreteActionValue(torch.tensor([[0.0, 0.0]])), DiscreteActionValue(torch.tensor([[0.0, 2.0]]))]
    value, action = EnsembleActionValue(members), torch.tensor([1])
    # log 2 - 0 and log(1 + e^2) - 2; log(1 + e) - 1
    both = math.log(2) + math.log(1 + math.e**2) - 2
    assert discrete_conservative_gap(value, action).item() == pytest.approx(both)
    assert pooled_conservative_gap(value, action).item() == pytest.approx(math.log(1 + math.e) - 1)
    table = Table([0.0, 2.0])
    agent = DiscreteCQL(
        table, sgd(table), ReplayBuffer(), 0.9, Greedy(), conservative_weight=3.0, gap=lambda *_: action
    )
    assert agent.penalty(value, BATCH.replace(action=action)).tolist() == [3.0]


def test_cal_ql_takes_the_returns_of_a_batch() -> None:
    agent = sac(CalQL)
    agent.update(BATCH.replace(returns=torch.tensor([7.0, 8.0])))
    values = torch.zeros(3 * agent.n_action_samples, 2)
    raised = agent._sampled_action_values(values, BATCH.replace(returns=torch.tensor([7.0, -8.0])))
    assert raised[0].tolist() == [7.0, 0.0] and raised[-1].tolist() == [0.0, 0.0]


# Modes of networks


class Doubled(Slope):
    """Twice the value of `Slope` in training mode."""

    def forward(self, pair: Any) -> Tensor:
        return super().forward(pair) * (1 + self.training)


def test_critics_are_in_training_or_evaluation_mode_in_the_policys_loss() -> None:
    for evaluates, loss in ((False, -6.0), (True, -3.0)):
        policy, critic = Acts(2.0), QFunctionEnsemble([Doubled(0.5)])
        agent = TD3(
            policy, critic, None, sgd(policy), sgd(critic, lr=0.0), None, ReplayBuffer(), 0.9, Greedy(),
            policy_update_delay=1,
        )  # fmt: skip
        agent.evaluates_critics = evaluates
        _, stats = agent.update(BATCH)
        assert stats["policy_loss"].item() == loss  # values 1 + 0.5 * 2 and 2 + 0.5 * 4, or twice as much
