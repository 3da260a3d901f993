import numpy as np
import pytest
import torch

from pfrl_like.action_value import DiscreteActionValue, QuadraticActionValue
from pfrl_like.explorers import Boltzmann


def never() -> int:
    raise AssertionError("the greedy action was asked for")


def test_forbidden_actions_are_never_chosen() -> None:
    value = DiscreteActionValue(torch.zeros(500, 4)).masked([False, True, False, True])
    assert set(Boltzmann().select_actions(0, np.zeros(500, dtype=np.int64), value).tolist()) == {1, 3}
    assert Boltzmann().select_action(0, never, value[:1]) in {1, 3}


def test_inactive_environments_keep_the_greedy_action_and_cost_no_draw() -> None:
    value = DiscreteActionValue(torch.zeros(3, 2))
    np.random.seed(0)
    actions = Boltzmann().select_actions(0, np.full(3, 9), value, np.array([False, True, False]))
    assert actions.tolist()[::2] == [9, 9]
    after = np.random.rand()
    np.random.seed(0)
    assert after == np.random.rand(2)[1]


def test_continuous_actions_are_refused() -> None:
    value = QuadraticActionValue(torch.zeros(1, 1), torch.ones(1, 1, 1), torch.zeros(1))
    with pytest.raises(TypeError, match="action_value is QuadraticActionValue, expected a Discrete"):
        Boltzmann().select_action(0, never, value)
