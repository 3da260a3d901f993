from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pfrl_like import q_functions
from pfrl_like.nn import MLP, Branched, Lambda, RecurrentBranched, RecurrentSequential
from pfrl_like.utils import contexts


class OwnForward(nn.Module):
    """A user's module: nobody knows what it reads."""

    def forward(self, x: Tensor) -> Tensor:
        return x + float(self.training)


class OwnSequential(nn.Sequential):
    """A user's class that only composes."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(2, 2), nn.ReLU())


def hooked() -> nn.Module:
    layer = nn.Linear(1, 1)
    layer.register_forward_hook(lambda *arguments: None)
    return layer


def patched() -> nn.Module:
    layer = nn.Linear(1, 1)
    layer.forward = lambda x: x
    return layer


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Conv2d(1, 1, 1), nn.ReLU(), nn.Flatten(), nn.Linear(1, 1), nn.LayerNorm(1), nn.Softmax(1)),
        nn.LSTM(2, 2),
        nn.ModuleList([nn.Tanh()]),
        OwnSequential(),
        MLP(2, 2, [2]),
        Branched(nn.Linear(2, 2), Lambda(torch.tanh)),
        RecurrentSequential(nn.GRU(2, 2), q_functions.DiscreteActionValueHead()),
        RecurrentBranched(nn.GRU(2, 2), nn.RNN(2, 2)),
        q_functions.FCStateQFunctionWithDiscreteAction(2, 2, 2, 1),
        q_functions.DistributionalFCStateQFunctionWithDiscreteAction(2, 2, 3, -1, 1, 2, 1),
    ],
)
def test_known_modules_do_not_read_the_mode_and_are_left_alone(module: nn.Module) -> None:
    assert not contexts.reads_training(module)
    with contexts.evaluation_mode(module) as same:
        assert same is module
        assert module.training


def test_readers_are_switched_among_several_modules_and_put_back_after_an_error() -> None:
    plain, own, fixed = nn.Linear(1, 1), OwnForward(), nn.Dropout(0.5).eval()
    for _ in range(2):
        with pytest.raises(KeyError), contexts.evaluation_mode_of_all(plain, own, fixed):
            assert (plain.training, own.training, fixed.training) == (True, False, False)
            raise KeyError
        assert (plain.training, own.training, fixed.training) == (True, True, False)
    contexts.keep_training_mode(own)
    with contexts.evaluation_mode(own), contexts.evaluation_mode_of_all(own):
        assert own.training
    with contexts.evaluation_mode_of_all(plain):
        assert plain.training


@pytest.mark.parametrize(
    "module",
    [
        nn.Dropout(0.5),
        nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)),
        nn.LSTM(2, 2, num_layers=2, dropout=0.1),
        nn.RReLU(),
        nn.MultiheadAttention(2, 1),
        OwnForward(),
        MLP(2, 2, [2], nonlinearity=OwnForward()),
        nn.utils.parametrizations.spectral_norm(nn.Linear(2, 2)),
        hooked(),
        patched(),
    ],
)
def test_modules_that_may_read_the_mode_are_switched(module: nn.Module) -> None:
    assert contexts.reads_training(module)
    with contexts.evaluating(module) as same:
        assert same is module
        assert not any(part.training for part in module.modules())
    assert module.training


def test_every_part_comes_back_to_its_own_mode_also_after_an_error() -> None:
    parts = nn.Sequential(nn.BatchNorm1d(2).eval(), nn.Dropout())
    whole = nn.Sequential(nn.Dropout(), nn.Dropout()).eval()
    whole[1].train()
    for module, modes in ((parts, [True, False, True]), (whole, [False, False, True])):
        with pytest.raises(KeyError), contexts.evaluating(module):
            assert not any(part.training for part in module.modules())
            raise KeyError
        assert [part.training for part in module.modules()] == modes


class Notes(nn.Linear):
    """Notes the modes that it is switched to."""

    def __init__(self) -> None:
        self.modes: list[bool] = []
        super().__init__(1, 1)

    def train(self, mode: bool = True) -> Any:
        self.modes.append(mode)
        return super().train(mode)


class Watching(nn.Linear):
    """Notes the modes that are set."""

    def __init__(self) -> None:
        vars(self)["modes"] = []
        super().__init__(1, 1)
        self.modes.clear()

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "training":
            self.modes.append(value)
        super().__setattr__(name, value)


@pytest.mark.parametrize("part", [Notes(), Watching()])
def test_users_own_train_and_attributes_see_the_mode(part: Any) -> None:
    with contexts.evaluating(part if isinstance(part, Notes) else nn.Sequential(part)):
        assert part.modes == [False]
    assert part.modes[-1]


def test_marked_class_is_known_and_its_subclass_with_another_forward_is_not() -> None:
    @contexts.ignores_training
    class Marked(nn.Module):
        """Says that it does not read the mode."""

        def forward(self, x: Tensor) -> Tensor:
            return x

    class Other(Marked):
        """Does something else."""

        def forward(self, x: Tensor) -> Tensor:
            return x * float(self.training)

    assert not contexts.reads_training(Marked())
    assert contexts.reads_training(Other())
