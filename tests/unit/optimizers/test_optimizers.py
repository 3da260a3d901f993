"""RMSprop of the papers; optimisers as mathematics; optimisers whose state processes share."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from optimizer_parts import OPTIMIZERS
from torch import nn
from torch.optim import LBFGS, SGD, Adam

from pfrl_like.optimizers import GradientStep, RMSpropEpsInsideSqrt, SharedRMSpropEpsInsideSqrt, share_state
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


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def after_steps(model: nn.Module, step: Callable[[torch.Tensor], None]) -> torch.Tensor:
    torch.manual_seed(1)
    for _ in range(3):
        step((model(torch.randn(4, 3)) - 1).square().mean())
    return torch.cat([param.detach().flatten() for param in model.parameters()])


# PyTorch leaves the dampening out of the first step, which it knows by the buffer that is missing.
@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name not in ("two groups", "SGD, momentum")])
def test_steps_are_those_of_an_ordinary_optimizer(name: str) -> None:
    plain, shared = make_model(), make_model()
    optimizer = OPTIMIZERS[name](shared.parameters())
    share_state(optimizer)
    tensors = [value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value)]
    assert all(tensor.is_shared() for tensor in tensors)
    assert tensors or type(optimizer) is SGD
    kept = [tensor.data_ptr() for tensor in tensors]
    expected = after_steps(plain, GradientStep(OPTIMIZERS[name](plain.parameters())))
    assert torch.equal(after_steps(shared, GradientStep(optimizer)), expected)
    assert [tensor.data_ptr() for tensor in tensors] == kept  # no step puts another tensor there


def test_state_that_exists_is_kept() -> None:
    model = make_model()
    optimizer = Adam(model.parameters(), lr=1e-2)
    step = GradientStep(optimizer)
    after_steps(model, step)
    before = {name: value.clone() for name, value in optimizer.state[model.weight].items()}  # type: ignore[index]
    share_state(optimizer)
    assert all(torch.equal(optimizer.state[model.weight][name], value) for name, value in before.items())  # type: ignore[index]


def test_an_optimizer_that_needs_a_closure_is_left_alone() -> None:
    optimizer = LBFGS(make_model().parameters())
    share_state(optimizer)
    assert not optimizer.state


def test_the_shared_rmsprop_of_pfrl_has_its_state_from_the_beginning() -> None:
    model = make_model()
    optimizer = SharedRMSpropEpsInsideSqrt(model.parameters(), lr=7e-4, eps=1e-1, alpha=0.99)
    state = optimizer.state[next(model.parameters())]
    assert state["square_avg"].is_shared()
    assert not state["square_avg"].any()
    assert isinstance(optimizer, RMSpropEpsInsideSqrt)


@pytest.mark.parametrize("name", ["Adam", "RMSpropEpsInsideSqrt"])
@pytest.mark.parametrize("max_grad_norm", [None, 0.1])
def test_gradients_of_copies_move_the_parameters(name: str, max_grad_norm: float | None) -> None:
    plain, model, copy = make_model(), make_model(), make_model()
    copies = dict(zip(model.parameters(), copy.parameters(), strict=True))
    step = GradientStep(OPTIMIZERS[name](model.parameters()), max_grad_norm, copies=copies)

    def step_and_follow(loss: torch.Tensor) -> None:
        step(loss)
        assert not torch.equal(copy.weight, model.weight)  # type: ignore[arg-type]
        copy.load_state_dict(model.state_dict())

    expected = after_steps(plain, GradientStep(OPTIMIZERS[name](plain.parameters()), max_grad_norm))
    assert torch.equal(after_steps(copy, step_and_follow), expected)
    assert torch.equal(torch.cat([param.detach().flatten() for param in model.parameters()]), expected)
