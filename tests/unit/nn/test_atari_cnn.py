import pytest
import torch

from pfrl_like.nn import LargeAtariCNN, SmallAtariCNN


@pytest.mark.parametrize(
    ("kind", "shapes"),
    [
        (SmallAtariCNN, [(16, 3, 8, 8), (32, 16, 4, 4), (7, 2592)]),
        (LargeAtariCNN, [(32, 3, 8, 8), (64, 32, 4, 4), (64, 64, 3, 3), (7, 3136)]),
    ],
)
def test_sizes_are_those_of_the_papers(kind: type, shapes: list[tuple[int, ...]]) -> None:
    model = kind(n_input_channels=3, n_output_channels=7, bias=0.5)
    state = model.state_dict()
    layers = [f"layers.{i}" for i in range(len(shapes) - 1)] + ["output"]
    assert [tuple(state[f"{layer}.weight"].shape) for layer in layers] == shapes
    assert all(bool((state[f"{layer}.bias"] == 0.5).all()) for layer in layers)
    assert model(torch.zeros(2, 3, 84, 84)).shape == (2, 7)


@pytest.mark.parametrize(("kind", "size"), [(SmallAtariCNN, 256), (LargeAtariCNN, 512)])
def test_defaults_take_four_frames(kind: type, size: int) -> None:
    features = kind()(torch.rand(1, 4, 84, 84))
    assert features.shape == (1, size)
    assert features.min() >= 0


@pytest.mark.parametrize(("kind", "channels"), [(SmallAtariCNN, [16, 32, 256]), (LargeAtariCNN, [32, 64, 64, 512])])
def test_the_activation_follows_each_layer(kind: type, channels: list[int]) -> None:
    calls = []

    def activation(x: torch.Tensor) -> torch.Tensor:
        calls.append(x.shape[1])
        return torch.tanh(x)

    kind(activation=activation)(torch.rand(1, 4, 84, 84))
    assert calls == channels
