"""The loss of Categorical DQN and its double form, with the arithmetic beside the numbers."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pfrl_like.action_value import DistributionalDiscreteActionValue
from pfrl_like.agents.double_dqn import greedy_of_online
from pfrl_like.agents.dqn import dqn_loss
from pfrl_like.batch import Batch

ATOMS = torch.tensor([0.0, 1.0, 2.0])


class Distributions(nn.Module):
    """For every state the same two return distributions, as logarithms of probabilities."""

    def __init__(self, *probs: list[float]) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(probs).log())

    def forward(self, obs: Tensor) -> DistributionalDiscreteActionValue:
        probs = self.logits.softmax(1).expand(len(obs), 2, 3)
        return DistributionalDiscreteActionValue(probs, ATOMS)


ONLINE = [0.25, 0.25, 0.5], [0.5, 0.25, 0.25]  # means 1.25 and 0.75
TARGET = [0.5, 0.5, 1e-9], [1e-9, 0.5, 0.5]  # means 0.5 and 1.5


def loss_of(reward: float, discount: float, **options: Any) -> tuple[float, Distributions]:
    """The loss of one step with action 0, and the online network after the backward pass."""
    one = torch.ones(1)
    batch = Batch(one, torch.tensor([0]), reward * one, one, discount * one, options.pop("weight", None))
    online = Distributions(*ONLINE)
    loss, td_error, value = dqn_loss(online, Distributions(*TARGET), batch, **options)
    assert value.item() == pytest.approx(1.25)
    assert td_error.item() == pytest.approx(loss.item()) or batch.weight is not None
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.item(), online


def cross_entropy(target: list[float]) -> float:
    return -sum(mass * math.log(prob) for mass, prob in zip(target, ONLINE[0], strict=True) if mass)


def test_the_target_is_the_projected_distribution_of_the_greedy_action() -> None:
    # Action 1 of the target network: masses (0, 0.5, 0.5) at 0.5 + 0.5 * (0, 1, 2) = (0.5, 1, 1.5);
    # 1.5 is shared by the atoms 1 and 2: target (0, 0.5 + 0.25, 0.25)
    loss, online = loss_of(0.5, 0.5)
    assert loss == pytest.approx(cross_entropy([0.0, 0.75, 0.25]), abs=1e-6)
    assert loss == pytest.approx(0.75 * math.log(4) + 0.25 * math.log(2), abs=1e-6)
    # d loss / d logits = probabilities - target
    assert online.logits.grad is not None
    torch.testing.assert_close(online.logits.grad[0], torch.tensor([0.25, -0.5, 0.25]), atol=1e-6, rtol=0)
    assert online.logits.grad[1].abs().max() < 1e-6


def test_double_takes_the_greedy_action_of_the_online_network() -> None:
    # Action 0 of the target network: masses (0.5, 0.5, 0) at (0.5, 1, 1.5): target (0.25, 0.25 + 0.5, 0)
    loss, _ = loss_of(0.5, 0.5, next_action=greedy_of_online)
    assert loss == pytest.approx(cross_entropy([0.25, 0.75, 0.0]), abs=1e-6)


def test_after_a_terminal_step_all_mass_lies_at_the_reward() -> None:
    loss, _ = loss_of(0.25, 0.0)
    assert loss == pytest.approx(cross_entropy([0.75, 0.25, 0.0]), abs=1e-6)


def test_mass_beyond_the_last_atom_goes_there() -> None:
    loss, _ = loss_of(7.0, 0.5)
    assert loss == pytest.approx(cross_entropy([0.0, 0.0, 1.0]), abs=1e-6)


def test_two_steps_shrink_the_atoms_by_the_square_of_gamma() -> None:
    # gamma 0.5, two steps: masses (0, 0.5, 0.5) at 1 + 0.25 * (0, 1, 2) = (1, 1.25, 1.5):
    # target (0, 0.5 * 0.75 + 0.5 * 0.5, 0.5 * 0.25 + 0.5 * 0.5) = (0, 0.625, 0.375)
    loss, _ = loss_of(1.0, 0.25)
    assert loss == pytest.approx(cross_entropy([0.0, 0.625, 0.375]), abs=1e-6)


def test_weights_multiply_the_loss() -> None:
    loss, _ = loss_of(0.5, 0.5, weight=torch.tensor([0.5]))
    assert loss == pytest.approx(0.5 * cross_entropy([0.0, 0.75, 0.25]), abs=1e-6)
