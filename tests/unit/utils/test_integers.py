"""Integral floats are converted where a parameter is annotated as an integer, and nowhere else."""

from typing import Any

import numpy as np

from pfrl_like.utils.integers import takes_integral_floats


def test_integral_floats_are_integers_where_an_integer_is_annotated() -> None:
    @takes_integral_floats
    def given(count: int, rate: float, /, *rest: Any, most: int | None = None, **others: Any) -> Any:
        return count, rate, rest, most, others

    got = given(1e3, 2.0, 3.0, most=np.float32(4), fifth=5.0)
    assert got == (1000, 2, (3,), 4, {"fifth": 5})
    assert [type(each) for each in (got[0], got[1], *got[2], got[3], got[4]["fifth"])] == [
        int,
        float,
        float,
        int,
        float,
    ]
    unchanged = given(1.5, 0, most=None)
    assert unchanged[0] == 1.5
    assert unchanged[3] is None
    assert np.isinf(given(np.inf, 0)[0])
    assert given(True, 0)[0] is True
