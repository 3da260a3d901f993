"""`fast_forward` gives what the module itself gives, and passes by nothing that somebody has put into it."""

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from pfrl_like.nn.fast_forward import fast_forward

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Doubling(nn.ReLU):
    """A subclass with another forward."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return 2 * input


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 5), nn.ReLU(), nn.Sequential(nn.Linear(5, 5, bias=False), nn.Tanh()), nn.LayerNorm(5),
        nn.ReLU(inplace=True), Doubling(), nn.Linear(5, 2),
    )  # fmt: skip


def test_the_argument_is_not_written_to() -> None:
    x = X.clone()
    fast_forward(nn.Sequential(nn.ReLU(), nn.Linear(4, 2)), x)
    assert torch.equal(x, X)


@pytest.mark.parametrize("part", [(), (0,), (2,), (2, 1), (6,)])
@pytest.mark.parametrize("kind", ["forward_hook", "forward_pre_hook", "full_backward_hook"])
def test_hooks_run(part: tuple[int, ...], kind: str) -> None:
    module = net()
    target: Any = module
    for index in part:
        target = target[index]
    seen: list[Any] = []
    handle = getattr(target, f"register_{kind}")(lambda *args: seen.append(args))
    fast_forward(module, X).sum().backward()
    assert len(seen) == 1
    handle.remove()
    fast_forward(module, X).sum().backward()
    assert len(seen) == 1


def test_hooks_for_all_modules_run() -> None:
    seen: list[nn.Module] = []
    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(module))
    try:
        module = net()
        fast_forward(module, X)
    finally:
        handle.remove()
    assert set(seen) == set(module.modules())


def test_a_forward_put_on_a_layer_is_used() -> None:
    module = net()
    module[6].forward = lambda x: x[:, :1]
    assert fast_forward(module, X).shape == (3, 1)


@pytest.mark.parametrize("parametrize", [parametrizations.weight_norm, parametrizations.spectral_norm])
def test_computed_weights_are_computed(parametrize: Any) -> None:
    module = net().eval()
    parametrize(module[0])
    with torch.no_grad():
        for param in module[0].parameters():
            param.mul_(2)
    assert torch.equal(fast_forward(module, X), module(X))


def test_a_weight_that_is_no_parameter_is_used() -> None:
    module = nn.Linear(4, 2)
    weight = module.weight.detach()
    del module.weight
    module.weight = weight  # type: ignore[assignment]
    assert torch.equal(fast_forward(module, X), module(X))


def test_layers_and_parameters_may_be_replaced() -> None:
    module = net()
    fast_forward(module, X)
    module[6] = nn.Linear(5, 7)
    module[0].weight = nn.Parameter(torch.zeros(5, 4))
    assert torch.equal(fast_forward(module, X), module(X))


def test_any_callable_will_do() -> None:
    assert torch.equal(fast_forward(torch.square, X), X * X)


class Keeping(nn.Module):
    """Gives what it gets, and keeps it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept = x
        return x


def test_what_a_layer_of_the_users_has_seen_is_not_written_to() -> None:
    keeping = Keeping()
    module = nn.Sequential(nn.Linear(4, 5), keeping, nn.ReLU())
    fast_forward(module, X)
    assert torch.equal(keeping.kept, module[0](X)) and bool((keeping.kept < 0).any())


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)])
def test_values_and_gradients_of_any_shape_are_those_of_the_module(shape: tuple[int, ...]) -> None:
    module = nn.Sequential(*net(), nn.ReLU())
    x = torch.linspace(-1, 1, math.prod(shape)).reshape(shape)
    params = list(module.parameters())
    direct, ordinary = fast_forward(module, x), module(x)
    assert torch.equal(direct, ordinary)
    for mine, theirs in zip(
        torch.autograd.grad(direct.square().sum(), params),
        torch.autograd.grad(ordinary.square().sum(), params),
        strict=True,
    ):
        assert torch.equal(mine, theirs)
