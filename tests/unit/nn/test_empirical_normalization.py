import copy
from typing import Any

import numpy as np
import pytest
import torch

from pfrl_like.nn import EmpiricalNormalization


def test_moments_are_those_of_everything_seen() -> None:
    rng = np.random.RandomState(0)
    batches = [rng.normal(5, 3, (n, 2, 3)).astype(np.float32) for n in (1, 4, 2, 9)]
    normalize = EmpiricalNormalization((2, 3)).eval()  # it learns in evaluation, too
    for batch in batches:
        normalize.experience(torch.from_numpy(batch))
    seen = np.concatenate(batches)
    assert normalize.count == 16
    np.testing.assert_allclose(normalize.mean, seen.mean(0), rtol=1e-5)
    np.testing.assert_allclose(normalize.std, seen.std(0), rtol=1e-5)
    expected = (batches[0] - seen.mean(0)) / np.sqrt(seen.var(0) + 0.01)
    np.testing.assert_allclose(normalize(torch.from_numpy(batches[0]), update=False), expected, rtol=1e-4)


@pytest.mark.parametrize("shape", [3, np.int64(3), (3,), [3], np.array([3])])
def test_the_shape_may_be_a_number_or_a_sequence(shape: Any) -> None:
    assert EmpiricalNormalization(shape).mean.shape == (3,)


def test_before_the_first_value_only_eps_changes_anything() -> None:
    x = torch.tensor([[3.0]])
    torch.testing.assert_close(EmpiricalNormalization(1, eps=0.0)(x, update=False), x)
    torch.testing.assert_close(EmpiricalNormalization(1, eps=8.0)(x, update=False), x / 3)


def test_without_update_nothing_is_learnt() -> None:
    normalize = EmpiricalNormalization(1)
    before = copy.deepcopy(normalize.state_dict())
    normalize(torch.ones(4, 1), update=False)
    normalize.experience(torch.ones(0, 1))
    assert normalize.state_dict() == before


def test_until_ends_learning_after_the_batch_that_reaches_it() -> None:
    normalize = EmpiricalNormalization(1, until=5)
    for value in (1.0, 2.0, 3.0):
        normalize(torch.full((3, 1), value))
    normalize.mean.fill_(9.0)  # a copy
    assert normalize.count == 6
    assert normalize.mean.item() == pytest.approx(1.5)


def test_results_are_clipped_on_both_sides() -> None:
    y = EmpiricalNormalization(1, clip_threshold=0.5)(torch.tensor([[-10.0], [0.1], [10.0]]))
    assert y[0] == -0.5
    assert y[2] == 0.5
    assert abs(y[1]) < 0.5


def test_inverse_undoes_the_normalisation() -> None:
    normalize, x = EmpiricalNormalization(3), torch.randn(5, 3) * 7 + 2
    torch.testing.assert_close(normalize.inverse(normalize(x)), x)


def test_batches_may_lie_along_another_axis() -> None:
    x = torch.randn(2, 5, 3)
    along, plain = EmpiricalNormalization((2, 3), batch_axis=1), EmpiricalNormalization((2, 3))
    torch.testing.assert_close(along(x), plain(x.transpose(0, 1)).transpose(0, 1))
    assert along.mean.shape == (2, 3)
    shapes = {name: tuple(value.shape) for name, value in along.state_dict().items()}
    assert shapes == {"_mean": (2, 1, 3), "_var": (2, 1, 3), "count": ()}  # the names of PFRL


@pytest.mark.parametrize("dtype", [np.float64, "float64", torch.float64])
def test_moments_have_the_dtype_asked_for(dtype: Any) -> None:
    normalize = EmpiricalNormalization(1, dtype=dtype)
    normalize.experience(torch.ones(2, 1))
    assert normalize.mean.dtype is torch.float64


def test_gradients_reach_the_values_but_not_the_moments() -> None:
    x = torch.randn(4, 2, requires_grad=True)
    normalize = EmpiricalNormalization(2)
    normalize(x).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, (1 / (normalize.std**2 + 0.01).sqrt()).expand(4, 2))
    assert not normalize.mean.requires_grad


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 4, 2), (4, 2, 1)])
def test_values_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    normalize = EmpiricalNormalization(2)
    for function in (normalize, normalize.experience, normalize.inverse):
        with pytest.raises(ValueError, match=r"expected \(2,\) with the batch at axis 0"):
            function(torch.zeros(shape))


@pytest.mark.parametrize(
    "options", [{"batch_axis": 2}, {"eps": -1.0}, {"dtype": np.int64}, {"until": -1}, {"clip_threshold": 0.0}]
)
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=f"{name} is .*, expected"):
        EmpiricalNormalization(2, **options)
