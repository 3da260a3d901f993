import pytest
import torch
from torch import distributions as of_torch
from torch.distributions.transforms import AffineTransform, TanhTransform

from pfrl_like import utils
from pfrl_like.distributions import Delta, mode_of
from pfrl_like.utils.mode_of_distribution import mode_of_distribution

LOC = torch.tensor([[0.5, -1.0]])
GAUSSIAN = of_torch.Independent(of_torch.Normal(LOC, 1.0), 1)


@pytest.mark.parametrize(
    ("distribution", "mode"),
    [
        (of_torch.Normal(LOC, 1.0), LOC),
        (GAUSSIAN, LOC),
        (of_torch.Independent(Delta(LOC), 1), LOC),
        (of_torch.MultivariateNormal(LOC, torch.eye(2)), LOC),
        (of_torch.Categorical(logits=LOC), torch.tensor([0])),
        (of_torch.TransformedDistribution(GAUSSIAN, [TanhTransform(), AffineTransform(1.0, 2.0)]), 1 + 2 * LOC.tanh()),
        (
            of_torch.Independent(of_torch.TransformedDistribution(of_torch.Normal(LOC, 1.0), TanhTransform()), 1),
            LOC.tanh(),
        ),
    ],
)
def test_the_mode_of_torchs_distributions(distribution: of_torch.Distribution, mode: torch.Tensor) -> None:
    assert torch.equal(mode_of_distribution(distribution), mode)


def test_what_has_no_known_mode_is_refused() -> None:
    mixture = of_torch.MixtureSameFamily(of_torch.Categorical(logits=LOC), of_torch.Normal(LOC, 1.0))
    with pytest.raises(RuntimeError, match="MixtureSameFamily has no known mode"):
        mode_of_distribution(mixture)


@pytest.mark.parametrize("what", [LOC, None, LOC.numpy()])
def test_what_is_no_distribution_is_refused(what: object) -> None:
    with pytest.raises(TypeError, match="expected a"):
        mode_of_distribution(what)


def test_it_is_found_at_pfrls_place_and_at_ours() -> None:
    assert utils.mode_of_distribution.mode_of_distribution is mode_of_distribution is mode_of
