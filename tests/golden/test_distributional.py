import pytest
import torch

from pfrl_like.functions.losses import categorical_projection

Z = torch.tensor([-1.0, 0.0, 1.0])


def project(values: list[float], probs: list[float]) -> list[float]:
    projected: list[float] = categorical_projection(Z, torch.tensor([values]), torch.tensor([probs]))[0].tolist()
    return projected


def test_mass_between_atoms_is_shared_by_nearness() -> None:
    # 0.25 lies three quarters of the way nearer to 0 than to 1: 0.75 goes to 0 and 0.25 to 1
    assert project([0.25], [1.0]) == [0.0, 0.75, 0.25]


@pytest.mark.parametrize("values_dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("probs_dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_the_larger_precision_counts(values_dtype: torch.dtype, probs_dtype: torch.dtype) -> None:
    values, probs = torch.tensor([[0.25]], dtype=values_dtype), torch.tensor([[1.0]], dtype=probs_dtype)
    projected = categorical_projection(Z, values, probs)
    assert projected.tolist() == [[0.0, 0.75, 0.25]]
    assert projected.dtype == torch.promote_types(values_dtype, probs_dtype)


def test_mass_on_an_atom_stays_there() -> None:
    assert project([-1.0, 0.0, 1.0], [0.25, 0.5, 0.25]) == [0.25, 0.5, 0.25]


def test_mass_beyond_the_ends_goes_to_the_ends() -> None:
    assert project([-7.0, 5.0], [0.25, 0.75]) == [0.25, 0.0, 0.75]


def test_mass_that_meets_on_an_atom_adds_up() -> None:
    # -0.5: a half each to -1 and 0; 0.5: a half each to 0 and 1
    assert project([-0.5, 0.5], [0.5, 0.5]) == [0.25, 0.5, 0.25]


def test_atoms_of_a_spacing_that_is_no_binary_fraction_are_hit_exactly() -> None:
    z = torch.linspace(-10, 10, 51)  # spacing 0.4
    probs = torch.softmax(torch.arange(51.0) / 10, 0).unsqueeze(0)
    torch.testing.assert_close(categorical_projection(z, z.unsqueeze(0), probs), probs, atol=1e-6, rtol=0)
