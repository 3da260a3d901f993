import pytest
import torch
from torch.nn import functional as F

from pfrl_like.functions.losses import half_square, huber, quantile_huber, weighted_mean


def test_huber_is_quadratic_up_to_one_and_linear_beyond() -> None:
    error = torch.tensor([0.0, 0.5, -1.0, 3.0, -2.0])
    # 0,   0.5**2 / 2 = 0.125,   1 / 2,   3 - 0.5 = 2.5,   2 - 0.5 = 1.5
    assert huber(error).tolist() == [0.0, 0.125, 0.5, 2.5, 1.5]


def test_gradient_of_huber_is_the_error_clipped_to_one() -> None:
    error = torch.tensor([0.0, 0.5, -1.0, 3.0, -2.0], requires_grad=True)
    huber(error).sum().backward()
    assert error.grad is not None
    assert error.grad.tolist() == [0.0, 0.5, -1.0, 1.0, -1.0]


def test_huber_agrees_with_pytorch() -> None:
    error = 3 * torch.randn(4, 5)
    torch.testing.assert_close(huber(error), F.huber_loss(error, torch.zeros(4, 5), reduction="none"))


def test_half_square_halves_the_square() -> None:
    assert half_square(torch.tensor([3.0, -2.0])).tolist() == [4.5, 2.0]


def test_gradient_of_half_square_is_the_error() -> None:
    error = torch.tensor([3.0, -2.0], requires_grad=True)
    half_square(error).sum().backward()
    assert error.grad is not None
    assert error.grad.tolist() == [3.0, -2.0]


def test_quantile_huber_sums_over_predictions_and_averages_over_targets() -> None:
    prediction = torch.tensor([[0.0, 2.0]])
    target = torch.tensor([[0.5, 3.0]])
    tau = torch.tensor([0.25, 0.75])
    # errors target - prediction and their Huber losses:
    #   prediction 0, tau 0.25:  0.5 -> 0.125,    3 -> 2.5;  both positive, weight 0.25
    #   prediction 2, tau 0.75: -1.5 -> 1.0,      1 -> 0.5;  weights |0.75 - 1| = 0.25 and 0.75
    # means over targets: 0.25 * (0.125 + 2.5) / 2 = 0.328125,   (0.25 * 1 + 0.75 * 0.5) / 2 = 0.3125
    assert quantile_huber(prediction, target, tau).tolist() == [0.328125 + 0.3125]


def test_quantile_huber_grows_with_predictions_and_not_with_targets() -> None:
    # one pair with error 0.5 and tau 0.5: 0.5 * 0.125 = 0.0625
    one, half = torch.zeros(1, 1), torch.full((1, 1), 0.5)
    assert quantile_huber(one, half, half[0]).tolist() == [0.0625]
    assert quantile_huber(one.expand(1, 3), half, half[0]).tolist() == [3 * 0.0625]
    assert quantile_huber(one, half.expand(1, 3), half[0]).tolist() == [0.0625]


def test_quantile_huber_takes_quantiles_of_each_row() -> None:
    prediction, target = torch.zeros(2, 1), torch.full((2, 1), 0.5)
    tau = torch.tensor([[0.2], [0.6]])
    # huber(0.5) = 0.125, times tau because the error is positive
    torch.testing.assert_close(quantile_huber(prediction, target, tau), torch.tensor([0.025, 0.075]))


def test_weighted_mean_divides_by_the_number_of_rows() -> None:
    loss, weight = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.5, 0.0])
    assert weighted_mean(loss).item() == 2.0  # 6 / 3
    assert weighted_mean(loss, weight).item() == pytest.approx(2 / 3)  # (1 + 1 + 0) / 3


def test_weighted_mean_can_sum() -> None:
    loss, weight = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.5, 0.0])
    assert weighted_mean(loss, accumulator="sum").item() == 6.0
    assert weighted_mean(loss, weight, "sum").item() == 2.0  # 1 + 1 + 0


def test_weighted_mean_refuses_another_accumulator() -> None:
    with pytest.raises(ValueError, match="accumulator is 'max', expected 'mean' or 'sum'"):
        weighted_mean(torch.ones(1), accumulator="max")
