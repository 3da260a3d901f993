"""The losses that PFRL's modules of agents offer, with the arithmetic beside the numbers."""

from typing import Any

import pytest
import torch

from pfrl_like.agents import categorical_dqn, dqn, iqn

Y, T = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([2.5, 2.5, 3.0, 2.0])
WEIGHTS = torch.tensor([1.0, 2.0, 3.0, 0.5])


@pytest.mark.parametrize(
    ("clip_delta", "total", "weighted_total"),
    [
        # errors -1.5, -0.5, 0, 2:   1 + 0.125 + 0 + 1.5;   1 + 2 * 0.125 + 0 + 0.5 * 1.5
        (True, 2.625, 2.0),
        # 1.125 + 0.125 + 0 + 2;   1.125 + 2 * 0.125 + 0 + 0.5 * 2
        (False, 3.25, 2.375),
    ],
)
def test_value_losses_clip_and_weigh(clip_delta: bool, total: float, weighted_total: float) -> None:
    assert dqn.compute_value_loss(Y, T, clip_delta, "sum").item() == total
    assert dqn.compute_value_loss(Y.unsqueeze(1), T, clip_delta).item() == total / 4
    assert dqn.compute_weighted_value_loss(Y, T, WEIGHTS, clip_delta, "sum").item() == weighted_total
    assert dqn.compute_weighted_value_loss(Y, T.unsqueeze(1), WEIGHTS, clip_delta).item() == weighted_total / 4


def test_categorical_losses_are_summed_over_the_atoms() -> None:
    losses, weights = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 0.5])
    assert categorical_dqn.compute_value_loss(losses).item() == (3 + 7) / 2
    assert categorical_dqn.compute_value_loss(losses, "sum").item() == 3 + 7
    assert categorical_dqn.compute_weighted_value_loss(losses, 2, weights).item() == (3 + 0.5 * 7) / 2
    assert categorical_dqn.compute_weighted_value_loss(losses, 4, weights).item() == (3 + 0.5 * 7) / 4
    assert categorical_dqn.compute_weighted_value_loss(losses, 4, weights, "sum").item() == 3 + 0.5 * 7


def test_the_projection_takes_values_probabilities_and_atoms() -> None:
    y, probs, atoms = torch.tensor([[-1.0, 0.5, 3.0]]), torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([0.0, 1.0, 2.0])
    # 0.5 at the lower end and half of 0.25,   the other half,   0.25 at the upper end
    assert categorical_dqn._apply_categorical_projection(y, probs, atoms).tolist() == [[0.625, 0.125, 0.25]]


def test_quantile_losses_are_averaged_over_targets_and_summed_over_predictions() -> None:
    y, t, taus = torch.tensor([[0.0, 2.0]]), torch.tensor([[0.5, 3.0]]), torch.tensor([[0.25, 0.75]])
    pairs = iqn.compute_eltwise_huber_quantile_loss(y, t, taus)
    # errors 0.5, 3 of tau 0.25: 0.25 * 0.125, 0.25 * 2.5;   -1.5, 1 of tau 0.75: |0.75 - 1| * 1, 0.75 * 0.5
    assert pairs.tolist() == [[[0.03125, 0.625], [0.25, 0.375]]]
    one = (0.03125 + 0.625) / 2 + (0.25 + 0.375) / 2
    two, weights = torch.cat([pairs, 2 * pairs]), torch.tensor([3.0, 0.5])
    assert iqn.compute_value_loss(two).item() == (one + 2 * one) / 2
    assert iqn.compute_value_loss(two, "sum").item() == one + 2 * one
    assert iqn.compute_weighted_value_loss(two, weights).item() == (3 * one + 0.5 * 2 * one) / 2
    assert iqn.compute_weighted_value_loss(two, weights, "sum").item() == 3 * one + 0.5 * 2 * one


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (dqn.compute_value_loss, (Y, T)),
        (dqn.compute_weighted_value_loss, (Y, T, WEIGHTS)),
        (categorical_dqn.compute_value_loss, (torch.ones(4, 2),)),
        (categorical_dqn.compute_weighted_value_loss, (torch.ones(4, 2), 4, WEIGHTS)),
        (iqn.compute_value_loss, (torch.ones(4, 2, 3),)),
        (iqn.compute_weighted_value_loss, (torch.ones(4, 2, 3), WEIGHTS)),
    ],
)
def test_another_accumulator_is_refused(function: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="accumulator is 'max', expected 'mean' or 'sum'"):
        function(*arguments, batch_accumulator="max")
