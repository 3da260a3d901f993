"""Values of Advantage-Weighted Regression, which are those of states."""

import numpy as np
import pytest

from pfrl_like import algos


@pytest.mark.parametrize("kind", [algos.AWR, algos.DiscreteAWR])
def test_values_come_with_deviations_if_asked(kind: type[algos.AWR]) -> None:
    algo = kind()
    algo.create_impl((3,), 2)
    obs, actions = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32), np.zeros((7, 2), np.float32)
    values = algo.predict_value(obs)
    for given in (algo.predict_value(obs, actions, True), algo.predict_value(obs, action=actions, with_std=True)):
        np.testing.assert_array_equal(given[0], values)
        np.testing.assert_array_equal(given[1], np.zeros(7))
    with pytest.raises(TypeError, match="with_sdt"):
        algo.predict_value(obs, actions, with_sdt=True)
