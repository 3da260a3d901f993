from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pfrl_like.d3rlpy.models import (
    DefaultEncoderFactory,
    EncoderFactory,
    PixelEncoderFactory,
    SimBaEncoderFactory,
    VectorEncoderFactory,
)
from pfrl_like.d3rlpy.models.layers import output_size


def kinds(module: nn.Module) -> list[str]:
    return [type(layer).__name__ for layer in module.children()]


def test_layers_of_a_hidden_unit_are_in_the_order_of_d3rlpy() -> None:
    encoder: Any = VectorEncoderFactory([4, 5], "tanh", True, True, 0.5, last_activation="gelu").create((3,))
    hidden = ["BatchNorm1d", "LayerNorm", "Dropout"]
    assert kinds(encoder._layers) == ["Linear", "Tanh", *hidden, "Linear", "GELU", *hidden]
    encoder = VectorEncoderFactory([4, 5], exclude_last_activation=True).create((3,))
    assert kinds(encoder._layers) == ["Linear", "ReLU", "Linear"]


def test_the_default_encoder_depends_on_the_shape() -> None:
    image: Any = DefaultEncoderFactory(activation="swish", use_batch_norm=True).create((4, 84, 84))
    assert kinds(image._cnn_layers) == ["Conv2d", "SiLU", "BatchNorm2d"] * 3
    assert kinds(image._last_layers) == ["Linear", "SiLU", "BatchNorm1d"]
    assert output_size(image, (4, 84, 84)) == 512
    assert output_size(DefaultEncoderFactory().create((3,)), (3,)) == 256


def test_discrete_actions_are_one_hot_vectors_beside_the_observation() -> None:
    torch.manual_seed(0)
    encoder = VectorEncoderFactory([4]).create_with_action((3,), 2, discrete_action=True)
    x, one_hot = torch.ones(2, 3), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    expected = torch.cat((x, one_hot), 1) @ encoder._layers[0].weight.T + encoder._layers[0].bias  # type: ignore[index,union-attr,operator]
    torch.testing.assert_close(encoder(x, torch.tensor([[0], [1]])), expected.relu())
    assert output_size(SimBaEncoderFactory(6, 7, 1).create_with_action((3,), 2), (3,), 2) == 6


def test_measuring_the_features_changes_no_statistics() -> None:
    encoder = VectorEncoderFactory([4], use_batch_norm=True).create((3,))
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    assert output_size(encoder, (3,)) == 4 and encoder.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in encoder.state_dict().items())


@pytest.mark.parametrize(
    ("factory", "shape", "message"),
    [
        (VectorEncoderFactory(), (3, 8, 8), r"observation_shape is \(3, 8, 8\), expected \(n,\)"),
        (VectorEncoderFactory(), ((3,), (2,)), "write an EncoderFactory for other observations"),
        (PixelEncoderFactory(), (3,), r"expected \(channels, height, width\)"),
        (PixelEncoderFactory(), (3, 8, 8), "too small for filters"),
        (PixelEncoderFactory([[3, 1, 0]]), (3, 8, 8), "stride is 0"),
        (VectorEncoderFactory(activation="sigmoid"), (3,), "sigmoid"),
    ],
)
def test_what_no_encoder_can_be_built_from_is_rejected(factory: EncoderFactory, shape: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        factory.create(shape)


class Images(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


def test_an_encoder_must_return_features() -> None:
    with pytest.raises(ValueError, match=r"Images returns \(2, 1, 2, 2\) for 2 observations"):
        output_size(Images(), (1, 2, 2))


def test_a_factory_without_create_says_so() -> None:
    with pytest.raises(NotImplementedError, match="EncoderFactory does not define create"):
        EncoderFactory().create((3,))
    with pytest.raises(NotImplementedError, match="EncoderFactory does not define create_with_action"):
        EncoderFactory().create_with_action((3,), 2)
