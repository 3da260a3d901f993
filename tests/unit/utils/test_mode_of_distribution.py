import pytest
import torch
from torch.distributions import (
    Categorical,
    Distribution,
    Independent,
    MixtureSameFamily,
    MultivariateNormal,
    Normal,
    TransformedDistribution,
)
from torch.distributions.transforms import AffineTransform, TanhTransform

from pfrl_like import utils
from pfrl_like.distributions import Delta, mode_of
from pfrl_like.utils.mode_of_distribution import mode_of_distribution

LOC = torch.tensor([[0.5, -1.0]])
GAUSSIAN = Independent(Normal(LOC, 1.0), 1)


@pytest.mark.parametrize(
    ("distribution", "mode"),
    [
        (Normal(LOC, 1.0), LOC),
        (GAUSSIAN, LOC),
        (Independent(Delta(LOC), 1), LOC),
        (MultivariateNormal(LOC, torch.eye(2)), LOC),
        (Categorical(logits=LOC), torch.tensor([0])),
        (TransformedDistribution(GAUSSIAN, [TanhTransform(), AffineTransform(1.0, 2.0)]), 1 + 2 * LOC.tanh()),
        (Independent(TransformedDistribution(Normal(LOC, 1.0), TanhTransform()), 1), LOC.tanh()),
    ],
)
def test_the_mode_of_torchs_distributions(distribution: Distribution, mode: torch.Tensor) -> None:
    assert torch.equal(mode_of_distribution(distribution), mode)


def test_what_has_no_known_mode_is_refused() -> None:
    mixture = MixtureSameFamily(Categorical(logits=LOC), Normal(LOC, 1.0))
    with pytest.raises(RuntimeError, match="MixtureSameFamily has no known mode"):
        mode_of_distribution(mixture)


@pytest.mark.parametrize("what", [LOC, None, LOC.numpy()])
def test_what_is_no_distribution_is_refused(what: object) -> None:
    with pytest.raises(TypeError, match="expected a"):
        mode_of_distribution(what)


def test_it_is_found_at_pfrls_place_and_at_ours() -> None:
    assert utils.mode_of_distribution.mode_of_distribution is mode_of_distribution is mode_of
