"""Noise of two processes with 4 rows each, against the noise of one process with 8 rows."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from pfrl_like.nn import FactorizedNoisyLinear
from pfrl_like.random_streams.joined_noise import JoinedNoise

ROWS = 4


def drawn(rank: int, draw: Callable[[int], Tensor]) -> Tensor:
    torch.manual_seed(0)
    with (noise := JoinedNoise(rank, 2)):
        noise.rows = ROWS
        return draw(ROWS)


@pytest.mark.parametrize(
    "draw", [lambda n: torch.randn(n, 3), lambda n: torch.rand(2 * n), lambda n: torch.empty(3, n).normal_()]
)
def test_each_process_has_the_noise_of_its_rows(draw: Callable[[int], Tensor]) -> None:
    torch.manual_seed(0)
    joined = draw(2 * ROWS)
    assert torch.equal(
        torch.cat([drawn(rank, draw) for rank in range(2)], joined.shape.index(max(joined.shape))), joined
    )


@pytest.mark.parametrize("sizes", [(2, 2), (3, 5), (5, 6)])  # 4, 8 and 11 numbers
def test_noise_of_the_weights_of_a_noisy_layer_is_that_of_one_process(sizes: tuple[int, int]) -> None:
    layer = FactorizedNoisyLinear(nn.Linear(*sizes))

    def draw(n: int) -> Tensor:
        return layer(torch.ones(n, sizes[0])) + torch.rand(n, 1)

    torch.manual_seed(0)
    joined = draw(2 * ROWS)
    assert torch.allclose(torch.cat([drawn(rank, draw) for rank in range(2)]), joined)


def test_rows_have_noise_of_their_own_after_an_error_in_a_noisy_layer() -> None:
    layer = FactorizedNoisyLinear(nn.Linear(2, 2))

    def draw(n: int) -> Tensor:
        with pytest.raises(RuntimeError):
            layer(torch.ones(n, 3))
        return torch.rand(n)

    assert not torch.equal(drawn(0, draw), drawn(1, draw))
