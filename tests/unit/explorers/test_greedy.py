import numpy as np

from pfrl_like.explorers import Greedy


def test_greedy_explorer_chooses_greedily_and_draws_nothing() -> None:
    before = np.random.get_state(legacy=False)["state"]["pos"]
    assert Greedy().select_action(0, lambda: 4) == 4
    assert Greedy().select_actions(0, np.array([4, 2])).tolist() == [4, 2]
    assert np.random.get_state(legacy=False)["state"]["pos"] == before
