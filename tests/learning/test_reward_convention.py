"""Rows that pay for themselves are learnt from as they are meant with reward_convention="same_row" alone."""

import numpy as np
import pytest

from pfrl_like.algos import DQN
from pfrl_like.dataset import MDPDataset

N_STATES, N_ACTIONS, N_ROWS = 20, 4, 4_000
#: The action that brings 1 in each state; others bring 0, and what comes next depends on neither.
RIGHT = np.arange(N_STATES) % N_ACTIONS


def share_of_right_actions(convention: str | None) -> float:
    rng = np.random.default_rng(0)
    states, actions = rng.integers(N_STATES, size=N_ROWS), rng.integers(N_ACTIONS, size=N_ROWS)
    rewards = (actions == RIGHT[states]).astype(np.float64)
    observations = np.eye(N_STATES, dtype=np.float32)
    rows = observations[states], actions, rewards, np.arange(N_ROWS) % 10 == 9
    dataset = MDPDataset(*rows, discrete_action=True, reward_convention=convention)
    algo = DQN(learning_rate=3e-3, batch_size=100, gamma=0.1, encoder_params={"hidden_units": [64]})
    algo.fit(dataset, n_epochs=10, save_metrics=False, verbose=False, show_progress=False)
    return float((algo.predict(observations) == RIGHT).mean())


@pytest.mark.slow
def test_same_row_learns_the_right_actions() -> None:
    assert share_of_right_actions("same_row") == 1.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:reward_convention")
@pytest.mark.parametrize("convention", [None, "next_row"])
def test_the_documented_convention_is_no_better_than_chance_on_the_same_rows(convention: str | None) -> None:
    assert share_of_right_actions(convention) < 0.6  # of 20 states a guess is right in 5
