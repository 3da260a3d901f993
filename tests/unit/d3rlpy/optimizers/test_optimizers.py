import math
from typing import Any

import pytest
import torch
from torch import nn

from pfrl_like.d3rlpy import models, optimizers
from pfrl_like.d3rlpy.optimizers import (
    AdamFactory,
    AdamWFactory,
    CosineAnnealingLRFactory,
    GPTAdamWFactory,
    LRSchedulerFactory,
    OptimizerFactory,
    RMSpropFactory,
    SGDFactory,
    WarmupSchedulerFactory,
)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Linear(3, 1))


@pytest.mark.parametrize(
    ("factory", "kind", "options"),
    [
        (SGDFactory(momentum=0.5, dampening=0.3), torch.optim.SGD, {"momentum": 0.5, "dampening": 0.0}),
        (AdamFactory(betas=(0.5, 0.6), amsgrad=True), torch.optim.Adam, {"betas": (0.5, 0.6), "amsgrad": True}),
        (AdamWFactory(weight_decay=0.1), torch.optim.AdamW, {"weight_decay": 0.1, "eps": 1e-8}),
        (RMSpropFactory(), torch.optim.RMSprop, {"alpha": 0.95, "eps": 1e-2, "centered": True}),
    ],
)
def test_a_factory_gives_its_fields_to_the_optimiser(factory: Any, kind: type[Any], options: dict[str, Any]) -> None:
    module = network()
    optimizer = factory.create_optimizer(module.named_modules(), 0.25)
    assert type(optimizer) is kind
    (group,) = optimizer.param_groups
    assert {name: group[name] for name in options} == options and group["lr"] == 0.25
    assert [*map(id, group["params"])] == [*map(id, module.parameters())]


def test_only_weights_of_linear_layers_decay_in_transformers() -> None:
    module = network()
    optimizer = GPTAdamWFactory(weight_decay=0.1).create_optimizer(module.named_modules(), 0.25)
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    decay, others = optimizer.param_groups
    assert [names[id(parameter)] for parameter in decay["params"]] == ["0.weight", "2.weight"]
    assert [names[id(parameter)] for parameter in others["params"]] == ["0.bias", "1.bias", "1.weight", "2.bias"]
    assert (decay["weight_decay"], others["weight_decay"]) == (0.1, 0.0)


def rates(scheduler: LRSchedulerFactory, n: int, *, through_wrapper: bool) -> list[float]:
    """The learning rates of n steps, from a rate of 1."""
    wrapper = SGDFactory(lr_scheduler_factory=scheduler).create(network().named_modules(), 1.0, False)
    found = []
    for _ in range(n):
        found.append(wrapper.optim.param_groups[0]["lr"])
        wrapper.step() if through_wrapper else wrapper.optim.step()
    return found


@pytest.mark.parametrize("through_wrapper", [True, False])
def test_a_scheduler_follows_each_step_of_the_optimiser(through_wrapper: bool) -> None:
    warmup = rates(WarmupSchedulerFactory(4), 6, through_wrapper=through_wrapper)
    assert warmup == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    cosine = rates(CosineAnnealingLRFactory(4, eta_min=0.2), 5, through_wrapper=through_wrapper)
    assert cosine == pytest.approx([0.2 + 0.4 * (1 + math.cos(math.pi * t / 4)) for t in range(5)])


def test_the_wrapper_clips_the_gradient() -> None:
    parameter = nn.Parameter(torch.zeros(2))
    module = nn.ParameterList([parameter])
    wrapper = SGDFactory(clip_grad_norm=0.5).create(module.named_modules(), 1.0, True)
    parameter.grad = torch.tensor([3.0, 4.0])
    wrapper.step()
    torch.testing.assert_close(parameter.detach(), torch.tensor([-0.3, -0.4]))
    wrapper.zero_grad()
    assert parameter.grad is None


def test_the_state_is_saved_with_the_scheduler() -> None:
    factory = AdamFactory(lr_scheduler_factory=WarmupSchedulerFactory(10))
    first, second = (factory.create(network().named_modules(), 1.0, False) for _ in range(2))
    for _ in range(3):
        first.step()
    state = first.state_dict()
    assert state.keys() == {"optim", "lr_scheduler"}
    second.load_state_dict(state)
    assert second.optim.param_groups[0]["lr"] == pytest.approx(0.4)
    second.step()
    assert second.optim.param_groups[0]["lr"] == pytest.approx(0.5)
    assert SGDFactory().create(network().named_modules(), 1.0, False).state_dict()["lr_scheduler"] is None
    second.load_state_dict(first.optim.state_dict())  # as d3rlpy before 2.7 wrote it
    assert second.optim.param_groups[0]["lr"] == pytest.approx(0.4)


def test_a_base_class_says_what_is_missing() -> None:
    with pytest.raises(NotImplementedError, match="OptimizerFactory does not define create_optimizer"):
        OptimizerFactory().create(network().named_modules(), 1.0, False)
    optimizer = torch.optim.SGD(network().parameters(), 0.1)
    with pytest.raises(NotImplementedError, match="LRSchedulerFactory does not define create"):
        LRSchedulerFactory().create(optimizer)


def test_factories_are_also_at_their_older_path() -> None:
    assert models.optimizers.AdamFactory is models.AdamFactory is optimizers.AdamFactory
