from typing import Any

import pytest
import torch

from pfrl_like.optimizers import RMSpropEpsInsideSqrt


def parameter(*numbers: float) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor(numbers))


def steps(gradients: list[float], **options: Any) -> float:
    """Where a parameter that begins at 0 is after steps with these gradients."""
    param = parameter(0.0)
    optimizer = RMSpropEpsInsideSqrt([param], lr=1.0, **options)
    for gradient in gradients:
        param.grad = torch.tensor([gradient])
        optimizer.step()
    return param.item()


def test_epsilon_is_inside_the_root() -> None:
    # variance 0.25 * 4^2 = 4, root sqrt(4 + 5) = 3
    assert steps([4.0], alpha=0.75, eps=5.0) == pytest.approx(-4 / 3)


def test_the_centred_variance_is_taken() -> None:
    # mean square 0.5 * 4 = 2, mean 0.5 * 2 = 1, variance 2 - 1^2 = 1, root sqrt(1 + 3) = 2
    assert steps([2.0], alpha=0.5, eps=3.0, centered=True) == pytest.approx(-2 / 2)


def test_momentum_adds_up_the_steps() -> None:
    # alpha = 0: variance g^2, root sqrt(g^2 + 0); steps 1 and 0.5 * 1 + 1
    assert steps([2.0, 2.0], alpha=0.0, eps=0.0, momentum=0.5) == pytest.approx(-2.5)


def test_decay_pulls_towards_zero_and_maximize_ascends() -> None:
    param = parameter(10.0)
    optimizer = RMSpropEpsInsideSqrt([param], lr=1.0, alpha=0.0, eps=0.0, weight_decay=0.1)
    param.grad = torch.zeros(1)
    optimizer.step()  # gradient 0.1 * 10, root 1
    assert param.item() == pytest.approx(9.0)
    assert steps([4.0], alpha=0.75, eps=5.0, maximize=True) == pytest.approx(4 / 3)


def test_parameters_without_gradient_stay_and_a_closure_is_called() -> None:
    moved, still = parameter(1.0), parameter(1.0)
    optimizer = RMSpropEpsInsideSqrt([moved, still])

    def closure() -> torch.Tensor:
        loss = (moved * moved).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 1.0
    assert moved.item() < 1.0
    assert still.item() == 1.0
    assert not optimizer.state[still]


@pytest.mark.parametrize("name", ["lr", "alpha", "eps", "momentum", "weight_decay"])
def test_negative_numbers_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="Invalid"):
        RMSpropEpsInsideSqrt([parameter(1.0)], **{name: -1.0})
