"""The parts compute on a GPU what they compute on the CPU."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from estimator_parts import QUIET, make, vectors
from torch import nn

from pfrl_like import action_value, q_functions
from pfrl_like import nn as own_nn
from pfrl_like.augmentation.pipeline import AUGMENTATIONS, make_augmentation
from pfrl_like.batch import Batch
from pfrl_like.explorers import Boltzmann, ConstantEpsilonGreedy
from pfrl_like.learning.recurrent_memory import burn_in
from pfrl_like.optimizers import RMSpropEpsInsideSqrt
from pfrl_like.preprocessing import make_scaler
from pfrl_like.preprocessing.features import FeatureExtractor
from pfrl_like.utils.copy_param import synchronize_parameters
from pfrl_like.utils.recurrent import forward, max_over_sequences

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
LENGTHS = torch.tensor([3, 1])


def value_of(form: str, x: Any) -> Any:
    if form == "discrete":
        return action_value.DiscreteActionValue(x)
    if form == "distributional":
        probs = torch.softmax(x.unsqueeze(2) * torch.arange(3, device=x.device), 2)
        return action_value.DistributionalDiscreteActionValue(probs, torch.linspace(-1, 1, 3, device=x.device))
    if form == "quantile":
        return action_value.QuantileDiscreteActionValue(torch.stack([x, x + 1], dim=1))
    return action_value.QuadraticActionValue(x, torch.eye(4, device=x.device).expand(5, 4, 4), x[:, :1], -1, np.ones(4))


@pytest.mark.parametrize("form", ["discrete", "distributional", "quantile", "quadratic"])
def test_losses_are_the_same(form: str) -> None:
    x, y, reward, discount = torch.randn(5, 4), torch.randn(5, 4), torch.randn(5), torch.rand(5)
    action = torch.randn(5, 4) if form == "quadratic" else torch.randint(4, (5,))
    on_cpu = value_of(form, x).td_loss(action, reward, discount, value_of(form, y))
    on_gpu = value_of(form, x.cuda()).td_loss(action.cuda(), reward.cuda(), discount.cuda(), value_of(form, y.cuda()))
    torch.testing.assert_close([part.cpu() for part in on_gpu], list(on_cpu))


def test_masks_are_brought_to_the_device() -> None:
    value = action_value.DiscreteActionValue(torch.tensor([[1.0, 2.0]]).cuda()).masked(np.array([True, False]))
    assert value.greedy_actions.tolist() == [0]
    assert ConstantEpsilonGreedy(1.0, lambda: 1).select_action(0, lambda: 1, value) == 0
    assert Boltzmann().select_action(0, lambda: 1, value) == 0


def test_features_go_to_the_device() -> None:
    for phi in (None, lambda x: x * 2):
        features = FeatureExtractor(phi)
        assert features([np.zeros(2)], "cuda").is_cuda
        assert features.on_batch(torch.eye(2), torch.device("cuda")).is_cuda


def test_networks_move_with_their_buffers() -> None:
    network = q_functions.DistributionalFCStateQFunctionWithDiscreteAction(2, 2, 3, -1, 1, 4, 1).cuda()
    assert network(torch.zeros(1, 2).cuda()).max.is_cuda


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
    model = own_nn.RecurrentSequential(nn.LSTM(2, 3), q_functions.DiscreteActionValueHead())
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
        (lambda: own_nn.MLPBN(3, 2, [4]), [(6, 3)]),
        (lambda: own_nn.EmpiricalNormalization(3, until=100, clip_threshold=1.0), [(6, 3)]),
        (lambda: own_nn.BoundByTanh(-1.0, 1.0), [(6, 3)]),
        (lambda: own_nn.FactorizedNoisyLinear(nn.Linear(3, 2), sigma_scale=0.0), [(6, 3)]),
        (own_nn.SmallAtariCNN, [(2, 4, 84, 84)]),
        (own_nn.LargeAtariCNN, [(2, 4, 84, 84)]),
        (lambda: q_functions.DuelingDQN(3), [(2, 4, 84, 84)]),
        (lambda: q_functions.DistributionalDuelingDQN(3, 5, -1, 1), [(2, 4, 84, 84)]),
        (lambda: q_functions.DuelingStreams(nn.Linear(3, 2), nn.Linear(3, 1)), [(6, 3)]),
        (lambda: q_functions.FCSAQFunction(3, 2, 4, 1), [(6, 3), (6, 2)]),
        (lambda: q_functions.FCBNLateActionSAQFunction(3, 2, 4, 1), [(6, 3), (6, 2)]),
    ],
)
def test_networks_give_the_same(make: Any, shapes: list[tuple[int, ...]]) -> None:
    network, inputs = make(), [torch.randn(shape) for shape in shapes]
    on_cpu, on_gpu = network(*inputs), copy.deepcopy(network).cuda()(*[x.cuda() for x in inputs])
    torch.testing.assert_close(
        getattr(on_gpu, "q_values", on_gpu).cpu(), getattr(on_cpu, "q_values", on_cpu), atol=1e-2, rtol=1e-2
    )


def test_noise_is_drawn_on_the_device() -> None:
    layer = own_nn.FactorizedNoisyLinear(nn.Linear(3, 2).cuda())
    x = torch.ones(1, 3).cuda()
    assert layer(x).is_cuda
    assert not torch.equal(layer(x), layer(x))


def test_recurrent_q_function_of_state_and_action_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    q_function, inputs = q_functions.FCLSTMSAQFunction(3, 2, 4, 1), (torch.randn(4, 3), torch.randn(4, 2))
    on_cpu = forward(q_function, inputs, None, LENGTHS)[0]
    on_gpu = forward(q_function.cuda(), tuple(x.cuda() for x in inputs), None, LENGTHS)[0]
    torch.testing.assert_close(on_gpu.cpu(), on_cpu, atol=1e-5, rtol=1e-4)


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
