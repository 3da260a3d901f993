from typing import Any

import pytest
import torch
from torch import nn

from pfrl_like.encoders import make_encoder
from pfrl_like.preprocessing import PixelScaler, StandardScaler


def kinds(encoder: nn.Module) -> list[str]:
    return [type(part).__name__ for part in encoder.modules() if not list(part.children())]


def test_vectors_pass_through_layers_of_the_sizes_given() -> None:
    encoder = make_encoder((3,), {"hidden_units": [5, 4]})
    assert [layer.weight.shape for layer in encoder.head if isinstance(layer, nn.Linear)] == [(5, 3), (4, 5)]
    assert kinds(encoder) == ["Linear", "ReLU"] * 2 and encoder.feature_size == 4
    assert make_encoder((3,)).feature_size == 256


def test_images_pass_through_filters() -> None:
    encoder = make_encoder((2, 20, 24), {"filters": [(4, 6, 2), (3, 3, 1)], "feature_size": 7})
    assert encoder(torch.zeros(5, 2, 20, 24, dtype=torch.uint8)).shape == (5, 7)
    assert kinds(encoder) == ["Conv2d", "ReLU", "Conv2d", "ReLU", "Flatten", "Linear", "ReLU"]
    assert make_encoder((4, 84, 84))(torch.zeros(1, 4, 84, 84)).shape == (1, 512)


@pytest.mark.parametrize("shape", [(3,), (1, 12, 12)])
def test_actions_join_vectors_and_features(shape: tuple[int, ...]) -> None:
    params = {"hidden_units": [4]} if len(shape) == 1 else {"filters": [(4, 4, 2)], "feature_size": 4}
    encoder = make_encoder(shape, params, action_size=2)
    obs = torch.rand(5, *shape)
    one, other = encoder((obs, torch.zeros(5, 2))), encoder((obs, torch.ones(5, 2)))
    assert one.shape == (5, 4) and not torch.equal(one, other)


def test_batch_normalisation_follows_each_layer() -> None:
    vector = make_encoder((3,), {"hidden_units": [5]}, use_batch_norm=True)
    image = make_encoder((1, 12, 12), {"filters": [(4, 4, 2)], "feature_size": 4}, use_batch_norm=True)
    assert kinds(vector) == ["Linear", "BatchNorm1d", "ReLU"]
    assert kinds(image) == ["Conv2d", "BatchNorm2d", "ReLU", "Flatten", "Linear", "BatchNorm1d", "ReLU"]


def test_observations_are_scaled_first() -> None:
    scaler = StandardScaler(mean=[1.0, 2.0], std=[2.0, 4.0])
    plain, scaled = make_encoder((2,)), make_encoder((2,), scaler=scaler)
    scaled.load_state_dict(plain.state_dict())
    obs = torch.tensor([[3.0, 6.0]])
    assert torch.equal(scaled(obs), plain(torch.ones(1, 2)))
    pixels = make_encoder((1, 84, 84), scaler=PixelScaler())
    assert pixels(torch.full((1, 1, 84, 84), 255, dtype=torch.uint8)).isfinite().all()


def test_numbers_of_another_kind_become_those_of_the_layers() -> None:
    encoder = make_encoder((2,))
    for dtype in (torch.float64, torch.int64, torch.bool):
        assert encoder(torch.ones(1, 2).to(dtype)).dtype == torch.float32


@pytest.mark.parametrize(
    ("shape", "params", "error", "text"),
    [
        ((2, 3), None, ValueError, r"observation_shape is \(2, 3\), expected"),
        ((2,), {"hidden_unit": [3]}, ValueError, "encoder_params has 'hidden_unit'.*the nearest is 'hidden_units'"),
        ((1, 84, 84), {"hidden_units": [3]}, ValueError, "has 'hidden_units', expected 'filters', 'feature_size'"),
        ((1, 10, 10), None, ValueError, "too small for the filters"),
        ((2,), {"hidden_units": [3, 0]}, ValueError, "hidden_units"),
        ((2,), {"hidden_units": 256}, TypeError, "encoder_params has hidden_units=256, expected a list"),
        ((2,), "big", TypeError, "encoder_params is 'big', expected a dict"),
        ((1, 84, 84), {"filters": [(8, 4)]}, ValueError, r"filters\[0\] is \(8, 4\), expected \(channels"),
        ((1, 84, 84), {"filters": [(8, 4, 0)]}, ValueError, r"filters\[0\]\[2\] is 0"),
    ],
)
def test_what_cannot_be_is_refused(shape: tuple[int, ...], params: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make_encoder(shape, params)
