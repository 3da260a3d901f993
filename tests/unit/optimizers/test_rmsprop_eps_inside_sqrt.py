"""RMSprop of the papers; the optimisers as mathematics give the numbers of PyTorch's."""

from typing import Any

import pytest
import torch
from optimizer_parts import OPTIMIZERS

from pfrl_like.optimizers import RMSpropEpsInsideSqrt
from pfrl_like.optimizers.compiled_step import DESCENTS


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


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name not in ("NAdam", "Adagrad", "two groups")])
def test_twenty_steps_are_those_of_the_optimizer(name: str) -> None:
    param = torch.nn.Parameter(torch.randn(4))
    optimizer = OPTIMIZERS[name]([param])
    descent, group = DESCENTS[type(optimizer)], optimizer.param_groups[0]
    lr, sign = torch.tensor(float(group["lr"])), -1 if group["maximize"] else 1
    gradients = torch.randn(21, 4)
    param.grad = gradients[0]
    optimizer.step()  # makes the state
    value = param.detach().clone()
    state = {name: number.clone() for name, number in optimizer.state[param].items() if number is not None}
    for gradient in gradients[1:]:
        before = value.clone()
        new_value, new_state = descent(value, sign * gradient, state, lr, group)
        assert torch.equal(value, before)  # nothing is changed in place
        value, state = new_value, {**state, **new_state}
        param.grad = gradient
        optimizer.step()
        torch.testing.assert_close(value, param.detach(), rtol=1e-5, atol=1e-6)
    for name, number in state.items():
        torch.testing.assert_close(number, optimizer.state[param][name], rtol=1e-5, atol=1e-6)
