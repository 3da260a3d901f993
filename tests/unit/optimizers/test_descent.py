"""The optimisers as mathematics give the numbers of PyTorch's optimisers."""

import pytest
import torch
from optimizer_parts import OPTIMIZERS

from pfrl_like.optimizers.compiled_step import DESCENTS


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
