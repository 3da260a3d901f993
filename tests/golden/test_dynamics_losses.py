"""Losses of dynamics models, and what they predict, with numbers worked out by hand."""

import math

import pytest
import torch
from torch import Tensor, nn

from pfrl_like.batch import Batch
from pfrl_like.dynamics import DynamicsModel, ProbabilisticEnsemble
from pfrl_like.dynamics.dynamics_model import ensemble_loss, gaussian_loss, softly_bounded
from pfrl_like.preprocessing import StandardScaler


def test_a_variance_within_its_bounds_bends_towards_them() -> None:
    low, high = torch.tensor([-2.0]), torch.tensor([1.0])
    bounded = softly_bounded(torch.tensor([[0.0], [100.0], [-100.0]]), low, high)
    below = 1 - math.log(1 + math.e)  # 1 - softplus(1 - 0)
    assert bounded[0].item() == pytest.approx(-2 + math.log(1 + math.exp(below + 2)))
    # far above: the upper bound, softly kept from the lower one; far below: the lower one
    assert bounded[1].item() == pytest.approx(-2 + math.log(1 + math.exp(1 + 2)))
    assert bounded[2].item() == pytest.approx(-2)


def test_the_gaussian_loss_is_the_squared_error_in_units_of_the_variance_and_its_logarithm() -> None:
    mean, variance, target = torch.tensor([1.0, 2.0]), torch.tensor([4.0, 0.5]), torch.tensor([5.0, 2.0])
    loss = gaussian_loss(mean, variance.log(), target)
    torch.testing.assert_close(loss, torch.tensor([16 / 4 + math.log(4), math.log(0.5)]))
    # twice the negative log-likelihood, less log(2 pi)
    likelihood = torch.distributions.Normal(mean, variance.sqrt()).log_prob(target)
    torch.testing.assert_close(loss, -2 * likelihood - math.log(2 * math.pi))


class Pair(nn.Module):
    """Features: the observation times a factor, and the first action."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, x: tuple[Tensor, Tensor]) -> Tensor:
        return torch.cat((self.factor * x[0], x[1][:, :1]), 1)


def ensemble(factors: tuple[float, ...] = (1.0, 3.0)) -> ProbabilisticEnsemble:
    """Of an observation of one number: changes are the factor times it, rewards the action; log variances 0 and 1."""
    network = ProbabilisticEnsemble([Pair(factor) for factor in factors], 2, 2)
    for i, head in enumerate(network.heads):
        head.weight.data = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
        head.bias.data = torch.tensor([0.0, 0.0, 0.0, 1.0]) * (i + 1)
    network.min_log_variance.data.fill_(-1000.0)
    network.max_log_variance.data.fill_(1000.0)
    return network


def model(network: ProbabilisticEnsemble | None = None, **options: object) -> DynamicsModel:
    network = network or ensemble()
    return DynamicsModel(network, torch.optim.SGD(network.parameters(), lr=0.01), **options)


OBS, ACTION = torch.tensor([[2.0], [-1.0]]), torch.tensor([[5.0], [7.0]])


def test_a_prediction_is_the_mean_of_the_members() -> None:
    step = model().predict(OBS, ACTION)
    assert step.next_obs.tolist() == [[2 + (2 + 6) / 2], [-1 + (-1 - 3) / 2]]
    assert step.reward.tolist() == [5, 7]
    # variances (1, e) by one member and (1, e^2) by the other; the larger norm counts
    torch.testing.assert_close(step.variance, torch.full((2,), math.sqrt(1 + math.exp(4))))


def test_changes_are_those_of_scaled_observations() -> None:
    scaler = StandardScaler(mean=[10.0], std=[2.0])
    step = model(scaler=scaler).predict(OBS, ACTION)  # the change is by 4 and -2 of these units, of 2 each
    torch.testing.assert_close(step.next_obs, torch.tensor([[2.0 + 8], [-1.0 - 4]]))


def test_discrete_actions_are_given_as_one_of_n() -> None:
    step = model(n_actions=3).predict(OBS, torch.tensor([0, 2]))
    assert step.reward.tolist() == [1, 0]  # the first number of (1, 0, 0) and of (0, 0, 1)


def batch() -> Batch:
    next_obs, reward = OBS + torch.tensor([[4.0], [1.0]]), torch.tensor([6.0, 7.0])
    return Batch(OBS, ACTION, reward, next_obs, torch.ones(2))


def test_members_learn_from_rows_drawn_with_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "randint", lambda *_, **__: torch.tensor([[0, 0], [0, 1]]))
    target = torch.cat((batch().next_obs - OBS, batch().reward[:, None]), 1)
    network = ensemble()
    network.min_log_variance.data.fill_(-100.0)
    network.max_log_variance.data.fill_(200.0)
    loss, rows = ensemble_loss(network, (OBS, ACTION), target, torch.tensor([1.0, 3.0]), bound_weight=0.5)
    # errors of the change: 4 - 2 and 1 + 1 by the first member, 4 - 6 and 1 + 3 by the second; of rewards 1 and 0
    first = [(4 + 1 / math.e + 1) / 2, (4 + 0 + 1) / 2]
    second = [(4 + 1 / math.e**2 + 2) / 2, (16 + 0 + 2) / 2]
    torch.testing.assert_close(rows, torch.tensor([(a + b) / 2 for a, b in zip(first, second, strict=True)]))
    # the first member has row 0 twice; row 1 weighs 3; two rows; two outputs with bounds 300 apart
    expected = (2 * first[0] + second[0] + 3 * second[1]) / 2 + 0.5 * 600
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_an_update_descends_on_the_loss_and_counts() -> None:
    learner, target = model(), torch.cat((batch().next_obs - OBS, batch().reward[:, None]), 1)
    other = ensemble()
    torch.manual_seed(0)
    loss, _ = ensemble_loss(other, (OBS, ACTION), target, None, 0.01)
    loss.backward()
    torch.manual_seed(0)
    rows, stats = learner.update(batch())
    assert rows.shape == (2,) and stats["loss"].item() == loss.item() and learner.optim_t == 1
    for ours, parameter in zip(learner.network.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours, parameter - 0.01 * parameter.grad)
