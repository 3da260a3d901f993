"""The parts compute on a GPU what they compute on the CPU."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from estimator_parts import QUIET, make, vectors
from torch import nn

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.augmentation.pipeline import AUGMENTATIONS, make_augmentation
from pfrl_like.batch import Batch
from pfrl_like.explorers import Boltzmann, ConstantEpsilonGreedy
from pfrl_like.learning.recurrent_memory import burn_in
from pfrl_like.nn import (
    MLPBN,
    BoundByTanh,
    EmpiricalNormalization,
    FactorizedNoisyLinear,
    LargeAtariCNN,
    RecurrentSequential,
    SmallAtariCNN,
)
from pfrl_like.optimizers import RMSpropEpsInsideSqrt
from pfrl_like.preprocessing import make_scaler
from pfrl_like.q_functions import (
    DiscreteActionValueHead,
    DistributionalDuelingDQN,
    DuelingDQN,
    FCBNLateActionSAQFunction,
    FCSAQFunction,
)
from pfrl_like.utils.copy_param import synchronize_parameters
from pfrl_like.utils.recurrent import forward, max_over_sequences

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
LENGTHS = torch.tensor([3, 1])


def test_masks_are_brought_to_the_device() -> None:
    value = DiscreteActionValue(torch.tensor([[1.0, 2.0]]).cuda()).masked(np.array([True, False]))
    assert value.greedy_actions.tolist() == [0]
    assert ConstantEpsilonGreedy(1.0, lambda: 1).select_action(0, lambda: 1, value) == 0
    assert Boltzmann().select_action(0, lambda: 1, value) == 0


def test_targets_follow_across_a_move() -> None:
    src, dst = nn.Linear(2, 2), nn.Linear(2, 2)
    synchronize_parameters(src, dst, "hard")
    src.cuda()
    dst.cuda()
    nn.init.ones_(src.weight)
    synchronize_parameters(src, dst, "soft", 1.0)
    assert bool((dst.weight == 1).all())


def test_sequences_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # which recurrent layers use unless told not to
    model = RecurrentSequential(nn.LSTM(2, 3), DiscreteActionValueHead())
    rows = torch.randn(4, 2)
    batch = Batch(rows, rows, rows[:, 0], rows, rows[:, 0], lengths=LENGTHS)
    rest = burn_in(model, batch, 1)
    expected = forward(model, rest.obs, rest.recurrent_state, rest.lengths)[0].q_values
    model.cuda()
    rest = burn_in(model, batch.to("cuda"), 1)
    actual = forward(model, rest.obs, rest.recurrent_state, rest.lengths)[0].q_values
    torch.testing.assert_close(actual.cpu(), expected, atol=1e-5, rtol=1e-4)
    assert max_over_sequences(actual[:, 0], LENGTHS - 1 + (LENGTHS == 1)).is_cuda


@pytest.mark.parametrize(
    ("make", "shapes"),
    [
        (lambda: MLPBN(3, 2, [4]), [(6, 3)]),
        (lambda: EmpiricalNormalization(3, until=100, clip_threshold=1.0), [(6, 3)]),
        (lambda: BoundByTanh(-1.0, 1.0), [(6, 3)]),
        (lambda: FactorizedNoisyLinear(nn.Linear(3, 2), sigma_scale=0.0), [(6, 3)]),
        (SmallAtariCNN, [(2, 4, 84, 84)]),
        (LargeAtariCNN, [(2, 4, 84, 84)]),
        (lambda: DuelingDQN(3), [(2, 4, 84, 84)]),
        (lambda: DistributionalDuelingDQN(3, 5, -1, 1), [(2, 4, 84, 84)]),
        (lambda: FCSAQFunction(3, 2, 4, 1), [(6, 3), (6, 2)]),
        (lambda: FCBNLateActionSAQFunction(3, 2, 4, 1), [(6, 3), (6, 2)]),
    ],
)
def test_networks_give_the_same(make: Any, shapes: list[tuple[int, ...]]) -> None:
    network, inputs = make(), [torch.randn(shape) for shape in shapes]
    on_cpu, on_gpu = network(*inputs), copy.deepcopy(network).cuda()(*[x.cuda() for x in inputs])
    torch.testing.assert_close(
        getattr(on_gpu, "q_values", on_gpu).cpu(), getattr(on_cpu, "q_values", on_cpu), atol=1e-2, rtol=1e-2
    )


def test_rmsprop_moves_alike() -> None:
    params = [nn.Parameter(torch.ones(3, device=device)) for device in ("cpu", "cuda")]
    for param in params:
        optimizer = RMSpropEpsInsideSqrt([param], lr=0.1, centered=True, momentum=0.5)
        for gradient in (1.0, -2.0, 3.0):
            param.grad = torch.full_like(param, gradient)
            optimizer.step()
    torch.testing.assert_close(params[1].cpu(), params[0])


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_augmentations_change_alike_with_a_generator_on_the_cpu(name: str) -> None:
    augment: Any = make_augmentation(name)
    x = torch.rand(4, 3, 8, 8)
    on_cpu, on_gpu = (augment(batch, torch.Generator().manual_seed(0)) for batch in (x, x.cuda()))
    assert augment(x.cuda()).is_cuda and augment(x.cuda(), torch.Generator("cuda")).is_cuda
    torch.testing.assert_close(on_gpu.cpu(), on_cpu, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["pixel", "min_max", "standard"])
def test_scalers_give_the_same(name: str) -> None:
    scaler: Any = make_scaler(name)
    x = torch.rand(4, 3)
    scaler.fit(x.cuda())
    for function in (scaler.transform, scaler.reverse_transform):
        torch.testing.assert_close(function(x.cuda()).cpu(), function(x))


@pytest.mark.parametrize("name", ["DQN", "SAC", "BC", "AWR"])
def test_estimators_fitted_on_the_cpu_go_on_there(name: str, tmp_path: Path) -> None:
    on_cpu = make(name, scaler="standard", augmentation=["single_amplitude_scaling"])
    data = vectors(on_cpu.discrete_action)
    on_cpu.fit(data, n_epochs=1, **QUIET).save_model(tmp_path / "model.pt")
    on_gpu = make(name, scaler="standard", augmentation=["single_amplitude_scaling"], use_gpu=True)
    on_gpu.load_model(tmp_path / "model.pt")
    x = data.observations[:5]
    np.testing.assert_allclose(on_gpu.predict(x), on_cpu.predict(x), atol=1e-4)
    on_gpu.fit(data, n_epochs=1, **QUIET)
    modules = [part for part in vars(on_gpu.impl).values() if isinstance(part, nn.Module)]
    assert all(param.is_cuda for module in modules for param in module.parameters())
    assert np.isfinite(on_gpu.update(0, 0, data.sample(16))).all()
