"""IQN and FQF, with the arithmetic beside the numbers.

The quantile functions are straight lines: F(s, a, tau) = s * (1 + tau) for action 0 and 2 s tau for action 1, so that
an even draw of fractions has the means 1.5 s and s.
"""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from pfrl_like import implicit_action_value
from pfrl_like.action_value import QuantileDiscreteActionValue
from pfrl_like.functions.losses import even_fractions, quantile_huber
from pfrl_like.q_functions import cosine_basis_functions


def close(actual: Tensor, expected: Any) -> None:
    torch.testing.assert_close(actual.detach(), torch.as_tensor(expected))


def lines(features: Tensor, taus: Tensor) -> Tensor:
    s = features[:, :1]
    return torch.stack([s * (1 + taus), 2 * s * taus], dim=2)


class Given(implicit_action_value.ImplicitQuantileActionValue):
    """Draws what is given, by the number of fractions."""

    draws: dict[int, list[float]]

    def draw(self, n: int) -> Tensor:
        return torch.tensor([self.draws[n]]).expand(len(self.features), -1)


def implicit(s: float, draws: list[list[float]], action_mask: Tensor | None = None) -> Any:
    value = Given(torch.tensor([[s]]), lines, implicit_action_value.QuantileThresholds(2, 3, 1), action_mask)
    value.draws = {len(draw): draw for draw in draws}
    return value


# What the loss is made of


def test_a_target_counts_with_its_mass() -> None:
    prediction, target = torch.tensor([[0.0, 2.0]]), torch.tensor([[0.5, 3.0]])
    tau, mass = torch.tensor([0.25, 0.75]), torch.tensor([[0.2, 0.8]])
    loss = quantile_huber(prediction, target, tau, mass)
    # errors of 0: 0.5 and 3 with huber 0.125 and 2.5, weight 0.25; of 2: -1.5 and 1 with huber 1 and 0.5, weights
    # |0.75 - 1| and 0.75
    first = 0.2 * (0.25 * 0.125 + 0.25 * 1.0)
    second = 0.8 * (0.25 * 2.5 + 0.75 * 0.5)
    close(loss, [first + second])


def test_equal_masses_are_no_masses() -> None:
    torch.manual_seed(0)
    prediction, target, tau = torch.randn(3, 4), torch.randn(3, 5), torch.rand(3, 4)
    equal = quantile_huber(prediction, target, tau, torch.full((3, 5), 0.2))
    torch.testing.assert_close(equal, quantile_huber(prediction, target, tau))


def test_means_are_weighted_with_the_masses() -> None:
    quantiles = torch.tensor([[[1.0, 5.0], [2.0, 1.0]]])
    value = QuantileDiscreteActionValue(quantiles, masses=torch.tensor([[0.25, 0.75]]))
    close(value.q_values, [[0.25 * 1 + 0.75 * 2, 0.25 * 5 + 0.75 * 1]])
    assert value.greedy_actions.tolist() == [1]


def test_even_fractions_are_the_midpoints() -> None:
    close(even_fractions(4, torch.zeros(1)), [0.125, 0.375, 0.625, 0.875])


def test_cosines_begin_with_half_a_wave() -> None:
    # cos(pi x), cos(2 pi x), cos(3 pi x) at x = 0, 1/3, 1
    expected = [[1.0, 1.0, 1.0], [0.5, -0.5, -1.0], [-1.0, 1.0, -1.0]]
    close(cosine_basis_functions(torch.tensor([0.0, 1 / 3, 1.0]), 3), expected)


# Implicit quantiles


def test_implicit_loss_is_that_of_the_fractions_drawn() -> None:
    value = implicit(2.0, [[0.25, 0.5]])
    next_value = implicit(4.0, [[0.0, 0.5, 0.75], [0.1]])
    # N = 2 predictions for action 1: 4 tau = 1, 2
    # the next action is greedy at K = 1 fraction, 0.1: 4 * 1.1 > 8 * 0.1, so action 0
    # N' = 3 targets 0.5 + 0.25 * 4 (1 + tau) = 1.5 + tau = 1.5, 2, 2.25
    loss, error, mean = value.td_loss(torch.tensor([1]), torch.tensor([0.5]), torch.tensor([0.25]), next_value)
    # errors of 1: 0.5, 1, 1.25 with huber 0.125, 0.5, 0.75, weight tau = 0.25
    # errors of 2: -0.5, 0, 0.25 with huber 0.125, 0, 0.03125, weights 0.5
    first, second = 0.25 * (0.125 + 0.5 + 0.75), 0.5 * (0.125 + 0.03125)
    close(loss, [(first + second) / 3])
    close(mean, [1.5])
    close(error, [5.75 / 3 - 1.5])


def test_implicit_loss_takes_the_next_action_it_is_given() -> None:
    value, next_value = implicit(2.0, [[0.25, 0.5]]), implicit(4.0, [[0.0, 0.5, 0.75]])
    arguments = torch.tensor([1]), torch.tensor([0.5]), torch.tensor([0.25]), next_value, torch.tensor([1])
    # targets 0.5 + 0.25 * 8 tau = 0.5, 1.5, 2; no greedy action is asked for (no draw of one fraction is given)
    close(value.td_loss(*arguments)[1], [abs(4 / 3 - 1.5)])


def test_a_forbidden_action_is_not_bootstrapped_from() -> None:
    mask = torch.tensor([[False, True]])
    value, next_value = implicit(2.0, [[0.25, 0.5]]), implicit(4.0, [[0.0, 0.5, 0.75], [0.1]], mask)
    # action 0 would be greedy: the targets are those of action 1, as above
    loss, error, _ = value.td_loss(torch.tensor([1]), torch.tensor([0.5]), torch.tensor([0.25]), next_value)
    close(error, [abs(4 / 3 - 1.5)])


def test_a_terminal_step_forgets_the_next_state() -> None:
    value, next_value = implicit(2.0, [[0.25, 0.5]]), implicit(4.0, [[0.0, 0.5, 0.75], [0.1]])
    _, error, _ = value.td_loss(torch.tensor([1]), torch.tensor([0.5]), torch.tensor([0.0]), next_value)
    close(error, [1.0])  # |0.5 - 1.5|


# Proposed fractions


def parametrized(s: float, masses: list[float], entropy_coeff: float = 0.0, mask: Tensor | None = None) -> Any:
    proposed = torch.tensor([masses], requires_grad=True)
    return implicit_action_value.FullyParametrizedActionValue(torch.tensor([[s]]), lines, proposed, entropy_coeff, mask)


def test_proposed_quantiles_lie_in_the_middle_of_their_parts() -> None:
    value = parametrized(2.0, [0.25, 0.75])
    close(value.taus, [[0.125, 0.625]])
    close(value.quantile_value.quantiles, [[[2.25, 0.5], [3.25, 2.5]]])
    # the parts count by their masses, and lines have their mean at the middle: 2 * 1.5 and 4 * 0.5
    close(value.q_values, [[0.25 * 2.25 + 0.75 * 3.25, 0.25 * 0.5 + 0.75 * 2.5]])
    close(value.q_values, [[3.0, 2.0]])


def test_parametrized_loss_weights_the_next_quantiles_with_their_masses() -> None:
    value, next_value = parametrized(2.0, [0.25, 0.75]), parametrized(4.0, [0.5, 0.5])
    next_value.masses = torch.tensor([[0.2, 0.8]])
    # predictions of action 1: 0.5, 2.5 at tau 0.125, 0.625; next taus 0.1, 0.6: the means are 6 and 4, so action 0:
    # 4.4, 6.4; targets 0.1 + 0.25 * those = 1.2, 1.7
    loss, error, mean = value.td_loss(torch.tensor([1]), torch.tensor([0.1]), torch.tensor([0.25]), next_value)
    # errors of 0.5: 0.7, 1.2 with huber 0.245, 0.7, weight 0.125; of 2.5: -1.3, -0.8 with huber 0.8, 0.32, weight 0.375
    quantile_loss = 0.125 * (0.2 * 0.245 + 0.8 * 0.7) + 0.375 * (0.2 * 0.8 + 0.8 * 0.32)
    # the fraction 0.25, where F is 1, feels the slope 2 * 1 - 0.5 - 2.5 = -1
    close(loss, [quantile_loss - 0.25])
    close(mean, [2.0])
    close(error, [2.0 - 1.6])  # 0.1 + 0.25 * 6


def test_the_fractions_feel_the_slope_of_the_wasserstein_distance() -> None:
    masses = torch.tensor([[0.2, 0.4, 0.4]], dtype=torch.float64, requires_grad=True)
    value = implicit_action_value.FullyParametrizedActionValue(
        torch.tensor([[3.0]], dtype=torch.float64), lambda x, taus: (x[:, :1] * taus**2).unsqueeze(2), masses
    )
    (gradient,) = torch.autograd.grad(value.fraction_loss(torch.tensor([0])).sum(), masses)
    # F = 3 tau^2; edges 0.2 and 0.6, middles 0.1, 0.4, 0.8
    slopes = [3 * (2 * 0.04 - 0.01 - 0.16), 3 * (2 * 0.36 - 0.16 - 0.64)]
    # tau_1 = q_1, tau_2 = q_1 + q_2
    close(gradient, torch.tensor([[sum(slopes), slopes[1], 0.0]], dtype=torch.float64))

    def distance(taus: Tensor) -> Tensor:
        """The integral of |F(w) - F(middle of the part)| by 200,000 small steps."""
        w = (torch.arange(200_000, dtype=torch.float64) + 0.5) / 200_000
        edges = torch.cat([torch.zeros(1, dtype=torch.float64), taus, torch.ones(1, dtype=torch.float64)])
        part = torch.bucketize(w, taus)
        middle = (edges[part] + edges[part + 1]) / 2
        return (3 * w**2 - 3 * middle**2).abs().mean()

    taus, h = torch.tensor([0.2, 0.6], dtype=torch.float64), 1e-3
    steps = torch.eye(2, dtype=torch.float64) * h
    numerical = [((distance(taus + step) - distance(taus - step)) / (2 * h)).item() for step in steps]
    assert numerical == pytest.approx(slopes, abs=1e-3)


def test_the_entropy_is_taken_off_the_loss() -> None:
    with_entropy, without = (parametrized(2.0, [0.25, 0.75], coeff) for coeff in (0.5, 0.0))
    difference = without.fraction_loss(torch.tensor([0])) - with_entropy.fraction_loss(torch.tensor([0]))
    close(difference, [-0.5 * (0.25 * math.log(0.25) + 0.75 * math.log(0.75))])


def test_the_quantiles_do_not_feel_the_fractions() -> None:
    value = parametrized(2.0, [0.25, 0.75])
    value.features.requires_grad_()
    value.fraction_loss(torch.tensor([0])).sum().backward()
    assert value.features.grad is None
    quantile_loss = parametrized(2.0, [0.25, 0.75])
    quantile_loss.features.requires_grad_()
    arguments = torch.tensor([0]), torch.zeros(1), torch.zeros(1), parametrized(1.0, [0.5, 0.5])
    loss = quantile_loss.td_loss(*arguments)[0] - quantile_loss.fraction_loss(torch.tensor([0]))
    loss.sum().backward()
    assert quantile_loss.features.grad is not None
    close(quantile_loss.masses.grad, [[0.0, 0.0]])
