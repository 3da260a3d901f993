"""First layers of networks."""

import pytest
import torch

from pfrl_like.nn import Standardize


def test_features_are_standardised() -> None:
    layer = Standardize([1.0, -2.0], [2.0, 0.5])
    assert torch.equal(layer(torch.tensor([[3.0, -2.0], [1.0, -1.0]])), torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    assert [*layer.parameters()] == []
    assert [*layer.state_dict()] == ["mean", "std"]


@pytest.mark.parametrize("std", [[0.0, 1.0], [1.0, -1.0], [float("nan"), 1.0]])
def test_standard_deviations_are_positive(std: list[float]) -> None:
    with pytest.raises(ValueError, match="std is .*, expected positive numbers: add a small number"):
        Standardize([0.0, 0.0], std)


def test_mean_and_standard_deviation_have_the_same_length() -> None:
    with pytest.raises(ValueError, match="mean has 2 numbers, but std has 1"):
        Standardize([0.0, 0.0], [1.0])
