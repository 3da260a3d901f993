"""Action values of quantile functions: one draw of fractions for everything that is said of the means."""

from typing import Any

import pytest
import torch
from torch import Tensor

from pfrl_like import implicit_action_value as values
from pfrl_like.action_value import QuantileDiscreteActionValue


def quantiles(features: Tensor, taus: Tensor) -> Tensor:
    """Quantiles of three actions whose spread is three times their distance."""
    return features[:, None, :] + 3 * taus.unsqueeze(2) * torch.tensor([1.0, -1.0, 0.5])


def features() -> Tensor:
    return torch.arange(12.0).view(4, 3).sin()


def implicit(**options: Any) -> values.ImplicitQuantileActionValue:
    return values.ImplicitQuantileActionValue(features(), quantiles, values.QuantileThresholds(6, 5, 4), **options)


def parametrized(**options: Any) -> values.FullyParametrizedActionValue:
    torch.manual_seed(0)
    return values.FullyParametrizedActionValue(features(), quantiles, torch.rand(4, 5).softmax(1), **options)


FORMS = {"implicit": implicit, "parametrized": parametrized}


@pytest.mark.parametrize("form", FORMS)
class TestEveryForm:
    def test_means_agree_with_each_other(self, form: str) -> None:
        value = FORMS[form]()
        greedy = value.greedy_actions
        assert torch.equal(value.max, value.evaluate_actions(greedy))
        assert torch.equal(value.q_values.argmax(1), greedy)
        assert torch.equal(value.max, value.max)
        torch.testing.assert_close(value.compute_expectation(1e6), value.max)
        assert (value.compute_advantage(torch.tensor([0, 1, 2, 0])) <= 0).all()

    def test_a_part_has_the_values_of_the_whole(self, form: str) -> None:
        value = FORMS[form]()
        for rows in (2, -1, slice(1, 3), torch.tensor([3, 0, 0])):
            part = value[rows].q_values
            torch.testing.assert_close(part, value.q_values[rows].reshape(part.shape))

    def test_a_mask_leaves_the_values_and_changes_what_is_greedy(self, form: str) -> None:
        value = FORMS[form]()
        mask = torch.nn.functional.one_hot(torch.tensor([2, 1, 0, 2]), 3).bool()
        masked = value.masked(mask)
        assert torch.equal(masked.q_values, value.q_values)
        assert masked.greedy_actions.tolist() == [2, 1, 0, 2]
        assert masked[1].greedy_actions.tolist() == [1]
        assert torch.equal(masked(torch.full((4, 1), 0.5)).greedy_actions, masked.greedy_actions)
        assert torch.equal(masked.at_even_fractions().greedy_actions, masked.greedy_actions)
        with pytest.raises(ValueError, match=r"action_mask has shape \(4, 2\), expected \(4, 3\)"):
            value.masked(mask[:, :2])

    def test_a_call_gives_the_quantiles_of_the_fractions(self, form: str) -> None:
        taus = torch.rand(4, 7)
        value = FORMS[form]()(taus)
        assert isinstance(value, QuantileDiscreteActionValue)
        assert torch.equal(value.quantiles, quantiles(features(), taus))
        assert value.taus is taus

    def test_even_fractions_draw_nothing(self, form: str) -> None:
        before = torch.get_rng_state() if form == "implicit" else None
        value = implicit(taus=torch.zeros(4, 4)) if form == "implicit" else parametrized()
        first, second = value.at_even_fractions().q_values, value.at_even_fractions().q_values
        assert torch.equal(first, second)
        assert before is None or torch.equal(before, torch.get_rng_state())

    def test_what_it_says_of_itself(self, form: str) -> None:
        value = FORMS[form]()
        assert (value.n_actions, value.device.type) == (3, "cpu")
        assert value.params[0] is value.features
        assert repr(value).startswith(f"{type(value).__name__} of QuantileDiscreteActionValue greedy_actions:")

    def test_features_of_another_shape_are_refused(self, form: str) -> None:
        with pytest.raises(ValueError, match=r"features have shape \(4, 3, 1\), expected \[B, hidden\]"):
            type(FORMS[form]())(features().unsqueeze(2), quantiles, torch.ones(4, 2))  # type: ignore[arg-type]


def test_two_objects_draw_fractions_of_their_own() -> None:
    torch.manual_seed(0)
    first, second = implicit().q_values, implicit().q_values
    assert not torch.equal(first, second)
    torch.manual_seed(0)
    assert torch.equal(implicit().q_values, first)


def test_only_the_quantiles_learnt_carry_a_gradient() -> None:
    torch.manual_seed(0)
    rows = torch.ones(4)
    value, next_value = implicit(), implicit()
    value.features.requires_grad_()
    next_value.features.requires_grad_()
    loss, error, mean = value.td_loss(rows.long(), rows, rows, next_value)
    loss.sum().backward()
    assert value.features.grad is not None and next_value.features.grad is None
    assert not error.requires_grad and not mean.requires_grad
