"""The optimisers as mathematics give the numbers of PyTorch's optimisers."""

import copy
from typing import Any

import pytest
import torch
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop

from pfrl_like.optimizers import RMSpropEpsInsideSqrt
from pfrl_like.optimizers.compiled_step import DESCENTS

CASES: list[tuple[type[Optimizer], dict[str, Any]]] = [
    (Adam, {}),
    (Adam, {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1}),
    (Adam, {"amsgrad": True}),
    (AdamW, {"weight_decay": 0.1}),
    (AdamW, {"amsgrad": True}),
    (RMSprop, {}),
    (RMSprop, {"alpha": 0.9, "eps": 1e-3, "weight_decay": 0.1}),
    (RMSprop, {"momentum": 0.9}),
    (RMSprop, {"centered": True}),
    (RMSprop, {"centered": True, "momentum": 0.9, "alpha": 0.9}),
    (RMSpropEpsInsideSqrt, {"eps": 1e-2}),
    (RMSpropEpsInsideSqrt, {"centered": True, "momentum": 0.9, "alpha": 0.9, "weight_decay": 0.1}),
    (SGD, {}),
    (SGD, {"weight_decay": 0.1}),
    (SGD, {"momentum": 0.9}),
    (SGD, {"momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1}),
    (SGD, {"momentum": 0.9, "nesterov": True}),
]


@pytest.mark.parametrize(
    ("kind", "options"), CASES, ids=lambda case: case.__name__ if isinstance(case, type) else str(case)
)
def test_twenty_steps_are_those_of_the_optimizer(kind: Any, options: dict[str, Any]) -> None:
    param = torch.nn.Parameter(torch.randn(4))
    optimizer = kind([param], lr=0.05, **options)
    group = optimizer.param_groups[0]
    gradients = torch.randn(21, 4)
    param.grad = gradients[0]
    optimizer.step()  # makes the state
    value, state = (
        param.detach().clone(),
        copy.deepcopy({k: v for k, v in optimizer.state[param].items() if v is not None}),
    )
    for gradient in gradients[1:]:
        before = value.clone()
        new_value, new_state = DESCENTS[kind](value, gradient, state, torch.tensor(group["lr"]), group)
        assert torch.equal(value, before)  # nothing is changed in place
        value, state = new_value, {**state, **new_state}
        param.grad = gradient
        optimizer.step()
        torch.testing.assert_close(value, param.detach(), rtol=1e-5, atol=1e-6)
    for name, number in state.items():
        torch.testing.assert_close(number, optimizer.state[param][name], rtol=1e-5, atol=1e-6)
