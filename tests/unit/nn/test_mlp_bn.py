from typing import Any

import pytest
import torch
from torch import nn

from pfrl_like.nn import MLPBN
from pfrl_like.utils.contexts import evaluating, reads_training


def test_layers_are_normalised_in_training() -> None:
    x = torch.randn(50, 3) * 4 + 9
    seen: list[torch.Tensor] = []

    def nonlinearity(h: Any) -> Any:
        seen.append(h)
        return torch.relu(h)

    y = MLPBN(3, 2, [8, 8], normalize_output=True, nonlinearity=nonlinearity)(x)
    assert len(seen) == 2
    for h in (*seen, y):
        torch.testing.assert_close(h.mean(0), torch.zeros(h.shape[1]), atol=1e-5, rtol=0)
        torch.testing.assert_close(h.var(0, correction=0), torch.ones(h.shape[1]), atol=1e-2, rtol=0)


def test_in_evaluation_the_running_moments_count() -> None:
    model = MLPBN(1, 1, [])
    assert isinstance(model.output, nn.Linear)
    with torch.no_grad():
        model.output.weight.fill_(2.0)
        model.output.bias.fill_(1.0)
        model.input_bn.running_mean.fill_(3.0)
        model.input_bn.running_var.fill_(4.0 - 1e-5)  # its eps is 1e-5
    # (7 - 3) / sqrt(4) = 2,   2 * 2 + 1 = 5
    assert model.eval()(torch.tensor([[7.0]])).item() == pytest.approx(5.0)


def test_last_layer_is_scaled() -> None:
    assert MLPBN(400, 100, [], last_wscale=0.1).output.weight.std().item() == pytest.approx(0.1 / 20, rel=0.05)


def test_its_mode_matters_and_is_put_back() -> None:
    model = MLPBN(3, 2, [4])
    assert reads_training(model)
    with evaluating(model):
        assert not model.input_bn.training
        model(torch.randn(1, 3))
    assert model.input_bn.training
    assert model.input_bn.num_batches_tracked == 0
