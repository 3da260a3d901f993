import torch
from hypothesis import given
from hypothesis import strategies as st

from pfrl_like.functions.losses import categorical_projection

values = st.floats(-30, 30, width=32)


def slow_projection(z: list[float], targets: list[float], probs: list[float]) -> list[float]:
    """arXiv:1707.06887, eq. 7, atom by atom: the share of atom i in the mass at y is max(0, 1 - |y - z_i| / dz)."""
    spacing = (z[-1] - z[0]) / (len(z) - 1)
    clipped = [min(max(value, z[0]), z[-1]) for value in targets]
    return [sum(p * max(0.0, 1 - abs(y - atom) / spacing) for y, p in zip(clipped, probs, strict=True)) for atom in z]


@given(st.lists(values, min_size=1, max_size=8), st.integers(2, 60), values, st.floats(0.125, 20, width=32))
def test_projection_equals_the_sum_over_atoms(targets: list[float], n_atoms: int, low: float, extent: float) -> None:
    z = torch.linspace(low, low + extent, n_atoms, dtype=torch.float64)
    probs = torch.full((1, len(targets)), 1 / len(targets), dtype=torch.float64)
    fast = categorical_projection(z, torch.tensor([targets], dtype=torch.float64), probs)[0]
    slow = slow_projection(z.tolist(), targets, probs[0].tolist())
    torch.testing.assert_close(fast, torch.tensor(slow, dtype=torch.float64), atol=1e-9, rtol=0)


@given(st.lists(values, min_size=1, max_size=8))
def test_projection_keeps_the_mass_and_makes_none_negative(targets: list[float]) -> None:
    z = torch.linspace(-10, 10, 51)
    probs = torch.softmax(torch.arange(float(len(targets))), 0).unsqueeze(0)
    projected = categorical_projection(z, torch.tensor([targets]), probs)
    torch.testing.assert_close(projected.sum(1), torch.ones(1), atol=1e-5, rtol=0)
    assert bool((projected >= 0).all())
