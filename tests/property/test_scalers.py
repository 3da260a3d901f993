"""Random data through scalers: against NumPy's own statistics, and there and back."""

import json
from typing import Any

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pfrl_like.preprocessing import MinMaxScaler, StandardScaler, make_scaler, scaler

NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False).map(lambda x: round(x, 6))
ROWS = arrays.arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 3)), elements=NUMBERS)
SCALERS = pytest.mark.parametrize("scaler_class", [MinMaxScaler, pytest.param(StandardScaler, marks=pytest.mark.slow)])


@given(rows=ROWS, cuts=st.lists(st.integers(0, 12)), piece=st.integers(1, 40))
def test_statistics_do_not_depend_on_how_rows_are_divided(rows: NDArray[Any], cuts: list[int], piece: int) -> None:
    episodes = np.split(rows, sorted(cut for cut in cuts if cut <= len(rows)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaler, "PIECE", piece)
        mean, std = scaler.moments(episodes, "observations")
        low, high = scaler.extremes(episodes, "observations")
    np.testing.assert_allclose(mean, rows.mean(0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(std, rows.std(0), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(low, rows.min(0))
    np.testing.assert_array_equal(high, rows.max(0))


@SCALERS
@given(rows=ROWS, other=st.integers(-5, 5))
def test_reverse_gives_back_what_was_scaled(scaler_class: Any, rows: NDArray[Any], other: int) -> None:
    scaler, x = scaler_class(rows), torch.from_numpy(np.concatenate([rows, rows + other]))
    torch.testing.assert_close(scaler.reverse_transform(scaler.transform(x)), x, rtol=1e-9, atol=1e-9)
    scaled = scaler.transform(torch.from_numpy(rows))
    assert bool(torch.isfinite(scaled).all())


@SCALERS
@given(value=NUMBERS, n=st.integers(1, 9))
def test_a_constant_column_becomes_zero(scaler_class: Any, value: float, n: int) -> None:
    for dtype in (np.float32, np.float64):
        rows = np.full((n, 1), value, dtype)
        assert scaler_class(rows).transform(torch.from_numpy(rows)).abs().max().item() == 0


@SCALERS
@given(rows=ROWS)
def test_a_scaler_comes_back_from_json(scaler_class: Any, rows: NDArray[Any]) -> None:
    scaler = scaler_class(rows)
    again: Any = make_scaler(json.loads(json.dumps(scaler.describe())))
    assert type(again) is scaler_class
    x = torch.from_numpy(rows)
    assert torch.equal(again.transform(x), scaler.transform(x))
    by_params = scaler_class(**scaler.get_params(deep=True))
    assert torch.equal(by_params.transform(x), scaler.transform(x))
