"""What modules are declared to take and give."""

from typing import Any

import pytest
from torch import Tensor, nn
from torch.distributions import Categorical, Distribution

from pfrl_like.action_value import ActionValue, DiscreteActionValue, QuantileDiscreteActionValue
from pfrl_like.agents.acer import ACERDiscreteActionHead
from pfrl_like.nn import Branched, ConcatObsAndAction, Lambda, RecurrentBranched, RecurrentSequential
from pfrl_like.nn.fast_forward import declares, input_of, may_be, output_of
from pfrl_like.policies import SoftmaxCategoricalHead
from pfrl_like.q_functions import (
    DiscreteActionValueHead,
    ImplicitQuantileFCSAQFunction,
    RecurrentImplicitQuantileQFunction,
    SingleModelStateQFunctionWithDiscreteAction,
)


class Undeclared(nn.Module):
    def forward(self, x):
        return x


class Unknown(nn.Module):
    def forward(self, x: "NotThere") -> "NotThereEither":  # type: ignore[name-defined]  # noqa: F821
        return x


class Pair(nn.Module):
    def forward(self, x: tuple[Tensor, Any]) -> tuple[Distribution, Tensor]:
        raise AssertionError(x)


POLICY = nn.Sequential(nn.Linear(2, 2), SoftmaxCategoricalHead())
MEMORY = RecurrentSequential(nn.GRU(2, 2), DiscreteActionValueHead())


@pytest.mark.parametrize(
    ("module", "taken", "given"),
    [
        (nn.Linear(2, 2), Tensor, Tensor),
        (nn.Sequential(nn.Linear(2, 2), DiscreteActionValueHead()), Tensor, DiscreteActionValue),
        (nn.Sequential(ConcatObsAndAction(), nn.Linear(2, 1)), (Tensor, Tensor), Tensor),
        (nn.Sequential(), Any, Any),
        (nn.Sequential(nn.Identity(), Undeclared()), Any, Any),
        (nn.Sequential(Lambda(abs)), Any, Any),
        (Unknown(), Any, Any),
        (Pair(), (Tensor, Any), (Distribution, Tensor)),
        (MEMORY, Tensor, DiscreteActionValue),
        (RecurrentBranched(MEMORY, MEMORY), Any, (DiscreteActionValue, DiscreteActionValue)),
        (SingleModelStateQFunctionWithDiscreteAction(nn.Linear(2, 2)), Tensor, DiscreteActionValue),
    ],
)
def test_annotations_say_what_a_module_takes_and_gives(module: nn.Module, taken: Any, given: Any) -> None:
    assert input_of(module) == taken
    assert output_of(module) == given


def test_containers_give_what_their_parts_give() -> None:
    distribution, value = output_of(Branched(POLICY, nn.Linear(2, 1)))
    assert issubclass(distribution, Categorical) and value is Tensor
    head = ACERDiscreteActionHead(POLICY, nn.Sequential(nn.Linear(2, 2), DiscreteActionValueHead()))
    assert output_of(head)[1:] == (DiscreteActionValue, Tensor)


def test_networks_of_quantiles_take_what_their_first_part_takes() -> None:
    assert input_of(ImplicitQuantileFCSAQFunction(2, 1, 4, 1)) == (Tensor, Tensor)
    recurrent = RecurrentImplicitQuantileQFunction(MEMORY, nn.Identity(), nn.Identity())
    assert input_of(recurrent) is Tensor
    assert issubclass(output_of(recurrent), ActionValue)


def test_nothing_is_known_of_a_module_with_hooks_or_a_forward_of_its_own() -> None:
    hooked, changed = nn.Linear(2, 2), nn.Linear(2, 2)
    hooked.register_forward_hook(lambda module, args, output: (output,))
    changed.forward = lambda x: (x,)  # type: ignore[method-assign]
    assert output_of(hooked) is output_of(changed) is Any


def test_a_class_of_ones_own_may_say_it() -> None:
    @declares(output=lambda module: output_of(module.part))
    class Wrapped(nn.Module):
        def __init__(self, part: nn.Module) -> None:
            super().__init__()
            self.part = part

        def forward(self, x: Any) -> Any:
            return self.part(x)

    class Other(Wrapped):
        def forward(self, x: Any) -> Any:
            return x

    assert output_of(Wrapped(DiscreteActionValueHead())) is DiscreteActionValue
    assert output_of(Other(DiscreteActionValueHead())) is Any


@pytest.mark.parametrize(
    ("declared", "wanted", "fits"),
    [
        (Any, Tensor, True),
        (Tensor, Tensor, True),
        (QuantileDiscreteActionValue, DiscreteActionValue, True),
        (DiscreteActionValue, QuantileDiscreteActionValue, False),
        (ActionValue, QuantileDiscreteActionValue, True),  # an interface says nothing of the class
        (Distribution, Categorical, True),
        (object, Categorical, True),
        (Tensor, ActionValue, False),
        ((Tensor, Tensor), tuple, True),
        ((Tensor, Tensor), Tensor, False),
    ],
)
def test_what_is_declared_may_be_what_is_wanted(declared: Any, wanted: type, fits: bool) -> None:
    assert may_be(declared, wanted) is fits
