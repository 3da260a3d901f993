from typing import Any

import numpy as np
import pytest

from pfrl_like.explorers import AdditiveGaussian


def test_result_is_clipped_to_the_bounds() -> None:
    actions = AdditiveGaussian(5.0, low=[-1.0, 0.0], high=1.0).select_actions(0, np.zeros((100, 2), dtype=np.float32))
    assert actions.min(0).tolist() == [-1.0, 0.0]
    assert actions.max(0).tolist() == [1.0, 1.0]
    assert actions.dtype == np.float32


def test_one_bound_is_enough() -> None:
    actions = AdditiveGaussian(5.0, low=0.0).select_actions(0, np.zeros((100, 1)))
    assert actions.min() == 0.0
    assert actions.max() > 1.0


def test_inactive_environments_keep_the_greedy_action_and_cost_no_draw() -> None:
    np.random.seed(0)
    actions = AdditiveGaussian(1.0).select_actions(0, np.zeros((3, 1)), active=np.array([False, True, False]))
    np.random.seed(0)
    np.testing.assert_allclose(actions[:, 0], [0.0, np.random.normal(), 0.0], rtol=1e-6)


def test_greedy_actions_are_not_written_into() -> None:
    greedy = np.zeros((2, 1))
    AdditiveGaussian(1.0).select_actions(0, greedy)
    AdditiveGaussian(1.0).select_action(0, lambda: greedy[0])
    assert greedy.tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"scale": [1.0, np.nan]}, "scale is"), ({"scale": 1.0, "low": [0.0, 2.0], "high": 1.0}, "expected low <= high")],
)
def test_values_out_of_range_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AdditiveGaussian(**arguments)
