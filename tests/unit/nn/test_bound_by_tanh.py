import pytest
import torch

from pfrl_like.nn import ActivityPenalty


def test_the_gradient_is_that_of_a_loss_with_the_mean_square_in_it() -> None:
    given = torch.tensor([[1.0, -2.0], [0.5, 3.0]])
    one, other = given.clone().requires_grad_(), given.clone().requires_grad_()
    passed = ActivityPenalty(0.3)(one)
    assert torch.equal(passed, given)
    passed.tanh().sum().backward()
    (other.tanh().sum() + 0.3 * other.square().mean()).backward()
    assert torch.allclose(one.grad, other.grad)


def test_without_a_gradient_it_is_not_there() -> None:
    given = torch.ones(2)
    assert ActivityPenalty(0.3)(given) is given


def test_a_negative_rate_is_refused() -> None:
    with pytest.raises(ValueError, match="rate is -1"):
        ActivityPenalty(-1)
