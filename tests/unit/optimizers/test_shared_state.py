"""An optimiser's state exists, shared, before the first step, and the steps are those of an ordinary one."""

from collections.abc import Callable

import pytest
import torch
from optimizer_parts import OPTIMIZERS
from torch import nn
from torch.optim import LBFGS, SGD, Adam

from pfrl_like.optimizers import GradientStep, RMSpropEpsInsideSqrt, SharedRMSpropEpsInsideSqrt, share_state


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
